package seam

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	configtesting "k8s.io/kubernetes/pkg/scheduler/apis/config/testing"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/yaml"
)

// Tests configure the scheduler in their process by functions of k8s.io/kubernetes/pkg/scheduler. The functions of the same
// names here return the same option and record its value for our scheduler, which gets it as a KubeSchedulerConfiguration.
// Tests of these suites run one after the other, so the options made since the last start are those of the next start.

// Option is scheduler.Option.
type Option = scheduler.Option

// Scheduler is scheduler.Scheduler.
type Scheduler = scheduler.Scheduler

// options are the values of options that a test has made since a scheduler was last started.
type options struct {
	profiles                   []schedulerconfig.KubeSchedulerProfile
	initialBackoff, maxBackoff *int64
	// Plugins that the test implements itself. Another process cannot run them.
	ownPlugins []string
}

var (
	pending     options
	pendingLock sync.Mutex
)

// WithProfiles is scheduler.WithProfiles.
func WithProfiles(profiles ...schedulerconfig.KubeSchedulerProfile) scheduler.Option {
	keep(func(made *options) { made.profiles = profiles })
	return scheduler.WithProfiles(profiles...)
}

// WithPodInitialBackoffSeconds is scheduler.WithPodInitialBackoffSeconds.
func WithPodInitialBackoffSeconds(seconds int64) scheduler.Option {
	keep(func(made *options) { made.initialBackoff = &seconds })
	return scheduler.WithPodInitialBackoffSeconds(seconds)
}

// WithPodMaxBackoffSeconds is scheduler.WithPodMaxBackoffSeconds.
func WithPodMaxBackoffSeconds(seconds int64) scheduler.Option {
	keep(func(made *options) { made.maxBackoff = &seconds })
	return scheduler.WithPodMaxBackoffSeconds(seconds)
}

// WithFrameworkOutOfTreeRegistry is scheduler.WithFrameworkOutOfTreeRegistry. Profiles reach our scheduler without the
// plugins of the registry; tests whose claim rests on one of them are listed in expectations.yaml.
func WithFrameworkOutOfTreeRegistry(registry frameworkruntime.Registry) scheduler.Option {
	keep(func(made *options) {
		for name := range registry {
			made.ownPlugins = append(made.ownPlugins, name)
		}
	})
	return scheduler.WithFrameworkOutOfTreeRegistry(registry)
}

func keep(change func(*options)) {
	pendingLock.Lock()
	defer pendingLock.Unlock()
	change(&pending)
}

// takeOptions returns the options as a configuration file; empty when the test has made none.
func takeOptions(t testing.TB) string {
	t.Helper()
	pendingLock.Lock()
	made := pending
	pending = options{}
	pendingLock.Unlock()
	document := map[string]any{"apiVersion": configv1.SchemeGroupVersion.String(), "kind": "KubeSchedulerConfiguration"}
	empty := len(document)
	if made.profiles != nil {
		document["profiles"] = encode(t, made.profiles, made.ownPlugins)
	}
	// A file must name at least one second; the options of a test may be zero.
	if made.initialBackoff != nil {
		document["podInitialBackoffSeconds"] = max(*made.initialBackoff, 1)
	}
	if made.maxBackoff != nil {
		document["podMaxBackoffSeconds"] = max(*made.maxBackoff, 1)
	}
	if len(document) == empty {
		return ""
	}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// encode returns the profiles as in a configuration file, without the plugins of these names.
func encode(t testing.TB, profiles []schedulerconfig.KubeSchedulerProfile, without []string) any {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		t.Fatal("no YAML serializer")
	}
	changed := make([]schedulerconfig.KubeSchedulerProfile, 0, len(profiles))
	for _, profile := range profiles {
		changed = append(changed, withoutDefaults(t, profile))
	}
	profiles = changed
	var text bytes.Buffer
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion)
	if err := encoder.Encode(&schedulerconfig.KubeSchedulerConfiguration{Profiles: profiles}, &text); err != nil {
		t.Fatalf("profiles of the test: %v", err)
	}
	var document map[string]any
	if err := yaml.Unmarshal(text.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	refuseOwnPlugins(t, document["profiles"], without)
	return drop(document["profiles"], without)
}

// withoutDefaults removes the defaults of Kubernetes from a profile. Our scheduler has defaults of its own, and refuses a
// file that names an unknown plugin.
func withoutDefaults(t testing.TB, profile schedulerconfig.KubeSchedulerProfile) schedulerconfig.KubeSchedulerProfile {
	t.Helper()
	defaults := configtesting.V1ToInternalWithDefaults(t.(*testing.T), configv1.KubeSchedulerConfiguration{}).Profiles[0]
	profile = *profile.DeepCopy()
	profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(config schedulerconfig.PluginConfig) bool {
		return slices.ContainsFunc(defaults.PluginConfig, func(other schedulerconfig.PluginConfig) bool {
			return reflect.DeepEqual(config, other)
		})
	})
	if profile.Plugins != nil {
		enabled := slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(plugin schedulerconfig.Plugin) bool {
			return slices.Contains(defaults.Plugins.MultiPoint.Enabled, plugin)
		})
		profile.Plugins.MultiPoint.Enabled = enabled
	}
	return profile
}

// refuseOwnPlugins fails a test whose profiles use a plugin of the test's own process: without that plugin the test could
// pass without checking its claim.
func refuseOwnPlugins(t testing.TB, profiles any, own []string) {
	t.Helper()
	for _, name := range own {
		if _, harmless := harmlessPlugins[name]; !harmless && uses(profiles, name) {
			t.Fatalf("the profile uses plugin %s of the test's own process", name)
		}
	}
}

// harmlessPlugins are plugins of tests that only some cases configure to do anything, each with those cases.
var harmlessPlugins = map[string]string{
	"filter-plugin":          "TestPreemption: cases named with filter, which are not run",
	"mockBindPlugin":         "TestPodGroupPreemption, TestCompositePodGroupPreemption: cases named Binding first, which are not run",
	"mockPGPostFilterPlugin": "the same cases",
}

// uses reports whether a list entry with this name exists anywhere in the value.
func uses(value any, name string) bool {
	switch value := value.(type) {
	case map[string]any:
		for _, inner := range value {
			if uses(inner, name) {
				return true
			}
		}
	case []any:
		for _, entry := range value {
			fields, ok := entry.(map[string]any)
			if ok && fields["name"] == name || uses(entry, name) {
				return true
			}
		}
	}
	return false
}

// drop removes every list entry with one of these names: entries of plugin sets and of pluginConfig.
func drop(value any, names []string) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = drop(inner, names)
		}
		return value
	case []any:
		kept := []any{}
		for _, entry := range value {
			if fields, ok := entry.(map[string]any); ok {
				if name, ok := fields["name"].(string); ok && slices.Contains(names, name) {
					continue
				}
			}
			kept = append(kept, drop(entry, names))
		}
		return kept
	}
	return value
}
