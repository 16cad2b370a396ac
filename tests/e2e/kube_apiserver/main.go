// An API server of Kubernetes' own libraries (k8s.io/apiserver, k8s.io/apiextensions-apiserver) with etcd: what of
// kube-apiserver serves custom resources, watches and lists, and the built-in kinds that patchbay-agent uses.
package main

import (
	"flag"
	"log"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	extensionsoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	extensionsopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/common"
)

var (
	folder  = flag.String("folder", "/run/api", "folder with server.crt, server.key and tokens.json")
	port    = flag.Int("port", 6443, "port of 127.0.0.1")
	etcd    = flag.String("etcd", "http://127.0.0.1:2379", "URL of etcd")
	compact = flag.Duration("compact", 5*time.Minute, "compaction of etcd; 0: never")
	inOrder = flag.Bool("fairness", true, "API priority and fairness")
)

func must[T any](out T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return out
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func versions() []schema.GroupVersion {
	out := []schema.GroupVersion{extensionsv1.SchemeGroupVersion}
	for _, one := range kinds {
		out = append(out, one.version)
	}
	return out
}

func etcdOptions() *options.EtcdOptions {
	config := storagebackend.NewDefaultConfig("/registry", extensions.Codecs.LegacyCodec(versions()...))
	config.Transport.ServerList = []string{*etcd}
	config.CompactionInterval = *compact
	return options.NewEtcdOptions(config)
}

// serve has the server listen with its certificate, and makes the client by which it asks itself.
func serve(config *server.RecommendedConfig) {
	secure := options.NewSecureServingOptions().WithLoopback()
	secure.BindAddress, secure.BindPort = net.ParseIP("127.0.0.1"), *port
	secure.ServerCert.CertKey = options.CertKey{CertFile: *folder + "/server.crt", KeyFile: *folder + "/server.key"}
	check(secure.ApplyTo(&config.SecureServing, &config.LoopbackClientConfig))
}

func describe(config *server.RecommendedConfig) {
	definitions := func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		out := extensionsopenapi.GetOpenAPIDefinitions(ref)
		for name, one := range definitionsOf(kinds)(ref) {
			if _, is := out[name]; !is {
				out[name] = one
			}
		}
		return out
	}
	namer := openapi.NewDefinitionNamer(extensions.Scheme)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, namer)
}

// guard adds who may do what: tokens, RBAC, admission, and fairness.
func guard(config *server.RecommendedConfig, client kubernetes.Interface) {
	all := config.SharedInformerFactory
	config.Authentication.Authenticator = bearertoken.New(tokens(*folder + "/tokens.json"))
	config.Authorization.Authorizer = rbac{all.Rbac().V1()}
	all.Rbac().V1().ClusterRoles().Informer()
	all.Rbac().V1().ClusterRoleBindings().Informer()

	features := options.NewFeatureOptions()
	features.EnablePriorityAndFairness = *inOrder
	check(features.ApplyTo(&config.Config, client, all))
	admission := options.NewAdmissionOptions()
	admission.DisablePlugins = []string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}
	check(admission.ApplyTo(&config.Config, all, client, must(dynamic.NewForConfig(config.LoopbackClientConfig)), config.FeatureGate, config.EffectiveVersion))
}

func storesOf(one kind, where stored) map[string]rest.Storage {
	resource := schema.GroupResource{Group: one.version.Group, Resource: one.plural}
	is := strategy{ObjectTyper: extensions.Scheme, NameGenerator: names.SimpleNameGenerator, isNamespaced: one.isNamespaced}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return one.object.DeepCopyObject() },
		NewListFunc:               func() runtime.Object { return one.list.DeepCopyObject() },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: schema.GroupResource{Group: resource.Group, Resource: strings.ToLower(one.name())},
		CreateStrategy:            is, UpdateStrategy: is, DeleteStrategy: is,
		PredicateFunc:  matching,
		TableConvertor: rest.NewDefaultTableConvertor(resource),
	}
	check(addFields(extensions.Scheme, one.version.WithKind(one.name())))
	check(store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: where, AttrFunc: attributes}))
	out := map[string]rest.Storage{one.plural: store}
	if one.hasStatus() {
		ofStatus := *store
		is.isStatus = true
		ofStatus.UpdateStrategy = is
		out[one.plural+"/status"] = statusREST{&ofStatus}
	}
	return out
}

// install serves the built-in kinds by their groups.
func install(to *server.GenericAPIServer, where stored) {
	groups := map[string]*server.APIGroupInfo{}
	for _, one := range kinds {
		info, is := groups[one.version.Group]
		if !is {
			made := server.NewDefaultAPIGroupInfo(one.version.Group, extensions.Scheme, runtime.NewParameterCodec(extensions.Scheme), extensions.Codecs)
			info = &made
			info.VersionedResourcesStorageMap[one.version.Version] = map[string]rest.Storage{}
			info.PrioritizedVersions = []schema.GroupVersion{one.version}
			groups[one.version.Group] = info
		}
		for name, store := range storesOf(one, where) {
			info.VersionedResourcesStorageMap[one.version.Version][name] = store
		}
	}
	for name, info := range groups {
		if name == "" {
			check(to.InstallLegacyAPIGroup("/api", info))
		} else {
			check(to.InstallAPIGroup(info))
		}
	}
}

// fill creates what a cluster has from its first start.
func fill(client kubernetes.Interface) server.PostStartHookFunc {
	return func(hook server.PostStartHookContext) error {
		levels, flows := client.FlowcontrolV1().PriorityLevelConfigurations(), client.FlowcontrolV1().FlowSchemas()
		for _, one := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations) {
			if _, err := levels.Create(hook, one, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
				return err
			}
		}
		for _, one := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
			if _, err := flows.Create(hook, one, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
				return err
			}
		}
		for _, name := range []string{"default", "kube-system"} {
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := client.CoreV1().Namespaces().Create(hook, space, metav1.CreateOptions{}); err != nil && !errors.IsAlreadyExists(err) {
				return err
			}
		}
		return nil
	}
}

func main() {
	flag.Parse()
	check(clientscheme.AddToScheme(extensions.Scheme))
	addKinds(extensions.Scheme)
	config := server.NewRecommendedConfig(extensions.Codecs)
	check(options.NewServerRunOptions().ApplyTo(&config.Config))
	serve(config)
	describe(config)
	client := must(kubernetes.NewForConfig(config.LoopbackClientConfig))
	config.SharedInformerFactory = informers.NewSharedInformerFactory(client, 10*time.Hour)
	guard(config, client)
	storage := etcdOptions()
	storage.StorageConfig.StorageObjectCountTracker = config.StorageObjectCountTracker
	check(storage.ApplyTo(&config.Config))
	config.MergedResourceConfig = extensions.DefaultAPIResourceConfigSource()
	where := stored{storage.StorageConfig}
	config.RESTOptionsGetter = where
	custom := extensionsoptions.NewCRDRESTOptionsGetter(*storage, config.ResourceTransformers, config.StorageObjectCountTracker)
	completed := (&extensions.Config{GenericConfig: config, ExtraConfig: extensions.ExtraConfig{
		CRDRESTOptionsGetter: custom,
		AuthResolverWrapper:  webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, nil),
	}}).Complete()
	completed.GenericConfig.EnableDiscovery = true // it is the only server here
	made := must(completed.New(server.NewEmptyDelegate()))
	install(made.GenericAPIServer, where)
	check(made.GenericAPIServer.AddPostStartHook("fill", fill(client)))
	check(made.GenericAPIServer.PrepareRun().RunWithContext(server.SetupSignalContext()))
}
