package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/storage"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// strategy is that of objects whose fields nobody looks at. The status changes by its subresource alone, as in a cluster.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	isNamespaced, isStatus bool
}

func status(object runtime.Object) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName("Status")
}

func (s strategy) NamespaceScoped() bool          { return s.isNamespaced }
func (s strategy) AllowCreateOnUpdate() bool      { return false }
func (s strategy) AllowUnconditionalUpdate() bool { return true }
func (s strategy) Canonicalize(runtime.Object)    {}

func (s strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	if value := status(object); value.IsValid() {
		value.SetZero()
	}
}

func (s strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	if !status(object).IsValid() {
		return
	}
	if !s.isStatus {
		status(object).Set(status(old.DeepCopyObject()))
		return
	}
	for _, name := range []string{"Spec"} {
		if value := reflect.ValueOf(object).Elem().FieldByName(name); value.IsValid() {
			value.Set(reflect.ValueOf(old.DeepCopyObject()).Elem().FieldByName(name))
		}
	}
}

func (s strategy) Validate(context.Context, runtime.Object) field.ErrorList              { return nil }
func (s strategy) ValidateUpdate(_ context.Context, _, _ runtime.Object) field.ErrorList { return nil }
func (s strategy) WarningsOnCreate(context.Context, runtime.Object) []string             { return nil }
func (s strategy) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string      { return nil }

// stored says where objects lie in etcd: all kinds behind a watch cache.
type stored struct{ config storagebackend.Config }

func (s stored) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig:           s.config.ForResource(resource),
		Decorator:               genericregistry.StorageWithCacher(),
		DeleteCollectionWorkers: 1,
		ResourcePrefix:          resource.Group + "/" + resource.Resource,
	}, nil
}

// Only what a subresource has: no list, create or delete.
// chosen are the fields by which a list may be narrowed, beside the name.
var chosen = []string{"NodeName", "Driver"}

func labelOf(field string) string { return "spec." + strings.ToLower(field[:1]) + field[1:] }

func attributes(object runtime.Object) (labels.Set, fields.Set, error) {
	data, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	found := fields.Set{"metadata.name": data.GetName(), "metadata.namespace": data.GetNamespace()}
	if spec := reflect.ValueOf(object).Elem().FieldByName("Spec"); spec.IsValid() {
		for _, name := range chosen {
			value := spec.FieldByName(name)
			if value.IsValid() && value.Kind() == reflect.Pointer {
				value = value.Elem()
			}
			if value.IsValid() {
				found[labelOf(name)] = value.String()
			}
		}
	}
	return data.GetLabels(), found, nil
}

func addFields(scheme *runtime.Scheme, of schema.GroupVersionKind) error {
	return scheme.AddFieldLabelConversionFunc(of, func(label, value string) (string, string, error) {
		if strings.HasPrefix(label, "metadata.name") || slices.ContainsFunc(chosen, func(one string) bool { return labelOf(one) == label }) {
			return label, value, nil
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	})
}

func matching(label labels.Selector, field fields.Selector) storage.SelectionPredicate {
	return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: func(object runtime.Object) (labels.Set, fields.Set, error) {
		return attributes(object)
	}}
}

type statusREST struct{ store *genericregistry.Store }

func (s statusREST) New() runtime.Object { return s.store.NewFunc() }
func (s statusREST) Destroy()            {}
func (s statusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return s.store.Get(ctx, name, options)
}
func (s statusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return s.store.Update(ctx, name, info, create, update, false, options)
}
