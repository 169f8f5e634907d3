// Prints how kinds are encoded in protobuf and in JSON, from their Go types by reflection.
//
// The first argument is a task, the others are kinds, "GROUP/VERSION/KIND". The task "types" prints the kinds, the messages
// that they reach, and how JSON encodes each empty field; `cargo xtask schema` and `cargo xtask protobuf table` write that
// into the repository. The task "zeros" prints an object of each kind in both encodings, with every field present and zero;
// `cargo xtask protobuf check` compares them.
//
// A field is "NUMBER NAME TYPE". The name is that of JSON, or "." when JSON inlines the message's fields. A type is a word
// (string, int32, quantity, …) or "#message". The prefix "[]" marks a list and "{}" a map with string keys. The suffix "?"
// marks a field whose zero value Go writes to protobuf but omits from JSON.
//
// An empty field is written as its zero value ("write"), written as null ("null"), omitted ("omit"), or left as it was
// sent ("keep"). " micro" marks a time in microseconds.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// Messages whose JSON is a single value.
var words = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():    "quantity",
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "micro-time",
	reflect.TypeFor[intstr.IntOrString]():   "int-or-string",
	reflect.TypeFor[metav1.FieldsV1]():      "json",
	reflect.TypeFor[runtime.RawExtension](): "json",
}

var messages = map[string][]string{}
var empties = map[string]map[string]string{}

func main() {
	answer, roots := map[string]any{}, map[string]string{}
	for _, kind := range os.Args[2:] {
		of := goType(kind)
		if os.Args[1] == "zeros" {
			answer[kind] = zeros(of)
		} else {
			roots[kind] = message(of)
		}
	}
	if os.Args[1] == "types" {
		answer["kinds"], answer["messages"], answer["empties"] = roots, messages, empties
	}
	must(0, json.NewEncoder(os.Stdout).Encode(answer))
}

// The Go type of "GROUP/VERSION/KIND".
func goType(kind string) reflect.Type {
	parts := strings.Split(kind, "/")
	object := must(scheme.Scheme.New(schema.GroupVersionKind{Group: parts[0], Version: parts[1], Kind: parts[2]}))
	return reflect.TypeOf(object).Elem()
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The name of a message. The first call for a message also records its fields.
func message(of reflect.Type) string {
	path := strings.Split(of.PkgPath(), "/")
	name := strings.Join(append(path[len(path)-2:], of.Name()), ".")
	if _, known := messages[name]; known {
		return name
	}
	messages[name] = []string{}
	fields := []string{}
	empties[name] = map[string]string{}
	addEmpties(of, empties[name])
	for i := range of.NumField() {
		field := of.Field(i)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 3 {
			if field.Name != "TypeMeta" {
				panic(name + "." + field.Name + " is not in protobuf")
			}
			continue // It is in the envelope.
		}
		fields = append(fields, fmt.Sprintf("%s %s %s", tag[1], jsonName(field), word(field.Type)+zero(field)))
	}
	messages[name] = fields
	return name
}

func jsonName(field reflect.StructField) string {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case name == "" && (options == "inline" || field.Anonymous):
		return "."
	case name == "" || name == "-":
		panic(field.Name + " has no name in JSON")
	}
	return name
}

func word(of reflect.Type) string {
	if word, special := words[of]; special {
		return word
	}
	if of.Kind() != reflect.Struct && reflect.PointerTo(of).Implements(reflect.TypeFor[runtime.ProtobufMarshaller]()) {
		panic(of.String() + " is a message but not a struct")
	}
	switch kind := of.Kind(); kind {
	case reflect.Pointer:
		return word(of.Elem())
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return kind.String()
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + word(of.Elem())
	case reflect.Map:
		if of.Key().Kind() != reflect.String {
			panic("a map whose keys are not strings")
		}
		return "{}" + word(of.Elem())
	case reflect.Struct:
		return "#" + message(of)
	}
	panic("no word for " + of.String())
}

// The mark of a field whose zero value is written to protobuf and omitted from JSON.
func zero(field reflect.StructField) string {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	empty, zero := strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")
	switch field.Type.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return "" // Protobuf omits it, too.
	case reflect.Struct:
		empty = false
	}
	if empty || zero {
		return "?"
	}
	return ""
}

// How JSON encodes each field of a type when it is empty. The fields of an embedded type count as fields of the outer one.
func addEmpties(of reflect.Type, fields map[string]string) {
	for i := range of.NumField() {
		field := of.Field(i)
		if name := jsonName(field); name != "." {
			fields[name] = empty(field)
		} else if field.Name == "TypeMeta" {
			fields["apiVersion"], fields["kind"] = "keep", "keep"
		} else {
			addEmpties(indirect(field.Type), fields)
		}
	}
}

func indirect(of reflect.Type) reflect.Type {
	if of.Kind() == reflect.Pointer {
		return of.Elem()
	}
	return of
}

func empty(field reflect.StructField) string {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	omitted := strings.Contains(options, "omitzero")
	if field.Type.Kind() != reflect.Struct {
		omitted = omitted || strings.Contains(options, "omitempty")
	}
	micro := ""
	if indirect(field.Type) == reflect.TypeFor[metav1.MicroTime]() {
		micro = " micro"
	}
	isTime := words[field.Type] == "time" || words[field.Type] == "micro-time"
	switch kind := field.Type.Kind(); {
	case kind == reflect.Pointer && omitted:
		return "keep" + micro
	case omitted:
		return "omit" + micro
	case kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map || isTime:
		return "null" + micro
	}
	return "write" + micro
}

// An object with every pointer, list and map present and all values zero, as JSON and as protobuf in hex.
func zeros(kind reflect.Type) map[string]any {
	object := reflect.New(kind)
	fill(object.Elem(), map[reflect.Type]bool{})
	raw := must(object.Interface().(interface{ Marshal() ([]byte, error) }).Marshal())
	envelope := must((&runtime.Unknown{Raw: raw}).Marshal())
	return map[string]any{"json": object.Interface(), "protobuf": fmt.Sprintf("%x", "k8s\x00"+string(envelope))}
}

// fill stops at the second level of a recursive type.
func fill(value reflect.Value, within map[reflect.Type]bool) {
	of := value.Type()
	if _, special := words[of]; special || within[of] {
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(of.Elem()))
		fill(value.Elem(), within)
	case reflect.Struct:
		within[of] = true
		for i := range of.NumField() {
			if of.Field(i).Tag.Get("protobuf") != "" {
				fill(value.Field(i), within)
			}
		}
		delete(within, of)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(of, 1, 1))
		fill(value.Index(0), within)
	case reflect.Map:
		value.Set(reflect.MakeMap(of))
		value.SetMapIndex(reflect.Zero(of.Key()), reflect.Zero(of.Elem()))
	}
}
