package main

import (
	"cmp"
	"reflect"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What is served beside custom resources. Objects are stored as they come: what a cluster validates of built-in kinds is
// in kube-apiserver alone.
type kind struct {
	version      schema.GroupVersion
	plural       string
	object, list runtime.Object
	isNamespaced bool
}

var kinds = []kind{
	{corev1.SchemeGroupVersion, "nodes", &corev1.Node{}, &corev1.NodeList{}, false},
	{corev1.SchemeGroupVersion, "namespaces", &corev1.Namespace{}, &corev1.NamespaceList{}, false},
	{corev1.SchemeGroupVersion, "pods", &corev1.Pod{}, &corev1.PodList{}, true},
	{corev1.SchemeGroupVersion, "configmaps", &corev1.ConfigMap{}, &corev1.ConfigMapList{}, true},
	{corev1.SchemeGroupVersion, "serviceaccounts", &corev1.ServiceAccount{}, &corev1.ServiceAccountList{}, true},
	{appsv1.SchemeGroupVersion, "deployments", &appsv1.Deployment{}, &appsv1.DeploymentList{}, true},
	{appsv1.SchemeGroupVersion, "daemonsets", &appsv1.DaemonSet{}, &appsv1.DaemonSetList{}, true},
	{rbacv1.SchemeGroupVersion, "clusterroles", &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleList{}, false},
	{rbacv1.SchemeGroupVersion, "clusterrolebindings", &rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRoleBindingList{}, false},
	{resourcev1.SchemeGroupVersion, "resourceslices", &resourcev1.ResourceSlice{}, &resourcev1.ResourceSliceList{}, false},
	{resourcev1.SchemeGroupVersion, "deviceclasses", &resourcev1.DeviceClass{}, &resourcev1.DeviceClassList{}, false},
	{resourcev1.SchemeGroupVersion, "resourceclaims", &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimList{}, true},
	{resourcev1.SchemeGroupVersion, "resourceclaimtemplates", &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceClaimTemplateList{}, true},
	{admissionv1.SchemeGroupVersion, "validatingadmissionpolicies", &admissionv1.ValidatingAdmissionPolicy{},
		&admissionv1.ValidatingAdmissionPolicyList{}, false},
	{admissionv1.SchemeGroupVersion, "validatingadmissionpolicybindings", &admissionv1.ValidatingAdmissionPolicyBinding{},
		&admissionv1.ValidatingAdmissionPolicyBindingList{}, false},
	{flowcontrolv1.SchemeGroupVersion, "flowschemas", &flowcontrolv1.FlowSchema{}, &flowcontrolv1.FlowSchemaList{}, false},
	{flowcontrolv1.SchemeGroupVersion, "prioritylevelconfigurations", &flowcontrolv1.PriorityLevelConfiguration{},
		&flowcontrolv1.PriorityLevelConfigurationList{}, false},
}

func (k kind) name() string { return reflect.TypeOf(k.object).Elem().Name() }

func (k kind) hasStatus() bool {
	_, found := reflect.TypeOf(k.object).Elem().FieldByName("Status")
	return found
}

// Each version stands for the internal one too, so that nothing is converted.
func addKinds(scheme *runtime.Scheme) {
	for _, k := range kinds {
		internal := schema.GroupVersion{Group: k.version.Group, Version: runtime.APIVersionInternal}
		scheme.AddKnownTypes(internal, k.object.DeepCopyObject(), k.list.DeepCopyObject())
	}
	scheme.AddTypeDefaultingFunc(&admissionv1.ValidatingAdmissionPolicy{}, func(of any) {
		setDefaults(of.(*admissionv1.ValidatingAdmissionPolicy).Spec.MatchConstraints)
	})
}

// As the documentation of MatchResources says; admission fails without them.
func setDefaults(to *admissionv1.MatchResources) {
	if to == nil {
		return
	}
	to.MatchPolicy = cmp.Or(to.MatchPolicy, new(admissionv1.Equivalent))
	to.NamespaceSelector = cmp.Or(to.NamespaceSelector, &metav1.LabelSelector{})
	to.ObjectSelector = cmp.Or(to.ObjectSelector, &metav1.LabelSelector{})
	for at := range to.ResourceRules {
		to.ResourceRules[at].Scope = cmp.Or(to.ResourceRules[at].Scope, new(admissionv1.AllScopes))
	}
}
