package main

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Schemas of the built-in kinds by reflection, since those that are generated are in kube-apiserver alone. By them a
// server-side apply merges, and kubectl and the server find misspelt fields.
type schemas struct {
	found map[string]common.OpenAPIDefinition
	ref   common.ReferenceCallback
}

type modelNamer interface{ OpenAPIModelName() string }

func nameOf(of reflect.Type) string {
	if named, is := reflect.Zero(of).Interface().(modelNamer); is {
		return named.OpenAPIModelName()
	}
	return of.PkgPath() + "." + of.Name()
}

func typed(name, format string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{name}, Format: format}}
}

// A quantity is a string or a number.
var several = reflect.TypeFor[interface{ OpenAPIV3OneOfTypes() []string }]()

var ours = reflect.TypeFor[interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}]()

// of is the schema of a type; uses gets the names of those that it refers to.
func (s schemas) of(t reflect.Type, uses *[]string) spec.Schema {
	if t.Kind() == reflect.Pointer {
		return s.of(t.Elem(), uses)
	}
	if t.Implements(several) {
		types := reflect.Zero(t).Interface().(interface{ OpenAPIV3OneOfTypes() []string }).OpenAPIV3OneOfTypes()
		return spec.Schema{SchemaProps: spec.SchemaProps{OneOf: common.GenerateOpenAPIV3OneOfSchema(types)}}
	}
	if t.Implements(ours) {
		value := reflect.Zero(t).Interface().(interface {
			OpenAPISchemaType() []string
			OpenAPISchemaFormat() string
		})
		return typed(value.OpenAPISchemaType()[0], value.OpenAPISchemaFormat())
	}
	switch t.Kind() {
	case reflect.Bool:
		return typed("boolean", "")
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint8:
		return typed("integer", "int64")
	case reflect.Float64:
		return typed("number", "double")
	case reflect.String:
		return typed("string", "")
	case reflect.Map:
		value := s.of(t.Elem(), uses)
		out := typed("object", "")
		out.AdditionalProperties = &spec.SchemaOrBool{Allows: true, Schema: &value}
		return out
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return typed("string", "byte")
		}
		value := s.of(t.Elem(), uses)
		out := typed("array", "")
		out.Items = &spec.SchemaOrArray{Schema: &value}
		return out
	case reflect.Struct:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) && t.NumField() == 0 ||
			reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return typed("string", "")
		}
		s.add(t)
		*uses = append(*uses, nameOf(t))
		return spec.Schema{SchemaProps: spec.SchemaProps{Ref: s.ref(nameOf(t))}}
	}
	return typed("object", "")
}

func (s schemas) add(t reflect.Type) {
	name := nameOf(t)
	if _, is := s.found[name]; is {
		return
	}
	s.found[name] = common.OpenAPIDefinition{} // in case it contains itself
	out := typed("object", "")
	out.Properties = map[string]spec.Schema{}
	var uses []string
	s.fields(t, out.Properties, &uses)
	s.found[name] = common.OpenAPIDefinition{Schema: out, Dependencies: uses}
}

func (s schemas) fields(t reflect.Type, out map[string]spec.Schema, uses *[]string) {
	for at := range t.NumField() {
		field := t.Field(at)
		name, rest, _ := strings.Cut(field.Tag.Get("json"), ",")
		if strings.Contains(rest, "inline") || field.Anonymous && name == "" {
			s.fields(field.Type, out, uses)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		one := s.of(field.Type, uses)
		if key := field.Tag.Get("patchMergeKey"); key != "" && len(one.Type) == 1 && one.Type[0] == "array" {
			one.AddExtension("x-kubernetes-list-type", "map")
			one.AddExtension("x-kubernetes-list-map-keys", []any{key})
		}
		out[name] = one
	}
}

func definitionsOf(kinds []kind) func(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		all := schemas{map[string]common.OpenAPIDefinition{}, ref}
		for _, one := range kinds {
			all.add(reflect.TypeOf(one.object).Elem())
			all.add(reflect.TypeOf(one.list).Elem())
		}
		return all.found
	}
}
