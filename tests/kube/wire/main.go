// Says how the kinds that Phalanx takes look in protobuf, as Go sees them at run time.
//
// Without arguments it prints the kinds and the messages that they reach; `cargo xtask protobuf table` keeps that in the
// repository. With "zeros" it prints an object of each kind with every field there and zero, in both forms;
// `cargo xtask protobuf check` compares them.
//
// A field is "NUMBER NAME TYPE". The name is that of JSON, or "." when JSON has the message's fields in its place. A type
// is a word (string, int32, quantity, …) or "#message", with "[]" before it for a list, "{}" for a map by text, and "?"
// behind it when Go sends the zero value in protobuf where it leaves it out of JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

var kinds = map[string]any{
	"/v1/Binding":       corev1.Binding{},
	"/v1/DeleteOptions": metav1.DeleteOptions{},
	"/v1/Event":         corev1.Event{},
	"/v1/Namespace":     corev1.Namespace{},
	"/v1/Node":          corev1.Node{},
	"/v1/Pod":           corev1.Pod{},
	"batch/v1/CronJob":  batchv1.CronJob{},
	"batch/v1/Job":      batchv1.Job{},

	"coordination.k8s.io/v1/Lease": coordinationv1.Lease{},

	"events.k8s.io/v1/Event": eventsv1.Event{},

	"policy/v1/Eviction":            policyv1.Eviction{},
	"policy/v1/PodDisruptionBudget": policyv1.PodDisruptionBudget{},

	"scheduling.k8s.io/v1/PriorityClass":           schedulingv1.PriorityClass{},
	"scheduling.k8s.io/v1alpha3/CompositePodGroup": schedulingv1alpha3.CompositePodGroup{},
	"scheduling.k8s.io/v1alpha3/PodGroup":          schedulingv1alpha3.PodGroup{},
	"scheduling.k8s.io/v1alpha3/Workload":          schedulingv1alpha3.Workload{},
	"scheduling.k8s.io/v1beta1/PodGroup":           schedulingv1beta1.PodGroup{},
	"scheduling.k8s.io/v1beta1/Workload":           schedulingv1beta1.Workload{},
}

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

func main() {
	answer := map[string]any{}
	if len(os.Args) > 1 && os.Args[1] == "zeros" {
		for kind, value := range kinds {
			answer[kind] = zeros(reflect.TypeOf(value))
		}
	} else {
		roots := map[string]string{}
		for kind, value := range kinds {
			roots[kind] = message(reflect.TypeOf(value))
		}
		answer["kinds"], answer["messages"] = roots, messages
	}
	must(0, json.NewEncoder(os.Stdout).Encode(answer))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The name of a message, which is looked into the first time.
func message(of reflect.Type) string {
	path := strings.Split(of.PkgPath(), "/")
	name := strings.Join(append(path[len(path)-2:], of.Name()), ".")
	if _, known := messages[name]; known {
		return name
	}
	messages[name] = []string{}
	fields := []string{}
	for i := range of.NumField() {
		field := of.Field(i)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 3 {
			if field.Name != "TypeMeta" {
				panic(name + "." + field.Name + " is not in protobuf")
			}
			continue // The envelope says it.
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
		panic(of.String() + " is a message, though no struct")
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
			panic("a map that is not by text")
		}
		return "{}" + word(of.Elem())
	case reflect.Struct:
		return "#" + message(of)
	}
	panic("no word for " + of.String())
}

// The mark of a field whose zero value is sent in protobuf and left out of JSON.
func zero(field reflect.StructField) string {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	empty, zero := strings.Contains(options, "omitempty"), strings.Contains(options, "omitzero")
	switch field.Type.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		return "" // Protobuf leaves it out, too.
	case reflect.Struct:
		empty = false
	}
	if empty || zero {
		return "?"
	}
	return ""
}

// An object whose every pointer, list and map is there, and everything in them zero: as JSON, and as protobuf in hex.
func zeros(kind reflect.Type) map[string]any {
	object := reflect.New(kind)
	fill(object.Elem(), map[reflect.Type]bool{})
	raw := must(object.Interface().(interface{ Marshal() ([]byte, error) }).Marshal())
	envelope := must((&runtime.Unknown{Raw: raw}).Marshal())
	return map[string]any{"json": object.Interface(), "protobuf": fmt.Sprintf("%x", "k8s\x00"+string(envelope))}
}

// Types within themselves end at the second time.
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
