// Says what the plugins of the real kube-scheduler think of a pod and a cluster.
//
// Each line of standard input is one question in JSON: a KubeSchedulerConfiguration, nodes, pods that run on them and one
// pod that waits. Each gets one line of standard output: what every filter says about every node, which nodes are left,
// and what every score gives them, weighted. `cargo xtask conformance scheduler` asks this program and Phalanx.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

type question struct {
	// Plugins that are asked. The others need more than nodes and pods.
	Plugins       []string        `json:"plugins"`
	Configuration json.RawMessage `json:"configuration"`
	Nodes         []*v1.Node      `json:"nodes"`
	Pods          []*v1.Pod       `json:"pods"`
	Pod           *v1.Pod         `json:"pod"`
}

type answer struct {
	// Error says that the question itself was refused: a bad configuration.
	Error string `json:"error,omitempty"`
	// Gate is why the pod does not enter the queue.
	Gate string `json:"gate,omitempty"`
	// Filters lists the filters in their order.
	Filters []string `json:"filters,omitempty"`
	// Weights of the scores.
	Weights map[string]int32 `json:"weights,omitempty"`
	// Rejected is what refused the pod before any node was looked at.
	Rejected *verdict `json:"rejected,omitempty"`
	// Verdicts of filters that refuse a node, by node and filter.
	Verdicts map[string]map[string]*verdict `json:"verdicts,omitempty"`
	// Scores of the nodes that all filters agree on, by node and score; "total" is their sum.
	Scores map[string]map[string]int64 `json:"scores,omitempty"`
}

type verdict struct {
	Code    string   `json:"code"`
	Reasons []string `json:"reasons"`
}

func verdictOf(status *fwk.Status) *verdict {
	return &verdict{Code: status.Code().String(), Reasons: status.Reasons()}
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	metrics.Register()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	for in.Scan() {
		said, err := json.Marshal(respond(in.Bytes()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Write(append(said, '\n'))
		out.Flush()
	}
}

func respond(line []byte) *answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return &answer{Error: err.Error()}
	}
	said, err := evaluate(&asked)
	if err != nil {
		return &answer{Error: err.Error()}
	}
	return said
}

func evaluate(asked *question) (*answer, error) {
	profile, err := profileFor(asked)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	snapshot := cache.NewSnapshot(asked.Pods, asked.Nodes)
	around, err := around()
	if err != nil {
		return nil, err
	}
	registry := plugins.NewInTreeRegistry()
	handle, err := frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithClientSet(around.client),
		frameworkruntime.WithInformerFactory(around.informers),
		frameworkruntime.WithSharedDRAManager(around.devices))
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	said := &answer{Weights: map[string]int32{}, Verdicts: map[string]map[string]*verdict{}}
	for _, gate := range handle.PreEnqueuePlugins() {
		if status := gate.PreEnqueue(ctx, asked.Pod); !status.IsSuccess() {
			said.Gate = status.Message()
		}
	}
	listed := handle.ListPlugins()
	for _, score := range listed.Score.Enabled {
		said.Weights[score.Name] = score.Weight
	}
	for _, filter := range listed.Filter.Enabled {
		said.Filters = append(said.Filters, filter.Name)
		plugin, err := registry[filter.Name](ctx, argumentsOf(profile, filter.Name), handle)
		if err != nil {
			return nil, err
		}
		ask(ctx, said, plugin, asked.Pod, nodes)
	}
	return said, score(ctx, said, handle, asked.Pod, nodes)
}

// What plugins are given besides nodes and pods: an API without any objects, and so without any devices.
type surroundings struct {
	client    *clientfake.Clientset
	informers informers.SharedInformerFactory
	devices   *dynamicresources.DefaultDRAManager
}

var around = sync.OnceValues(func() (*surroundings, error) {
	ctx := context.Background()
	client := clientfake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	resources := factory.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: client})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.Background(), resources.ResourceClaims().Informer(), "claims", "", nil)
	return &surroundings{client, factory, dynamicresources.NewDRAManager(ctx, claims, slices, factory)}, nil
})

// profileFor picks the profile of the pod's scheduler name and leaves out plugins that are not asked.
func profileFor(asked *question) (*config.KubeSchedulerProfile, error) {
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(asked.Configuration, nil, nil)
	if err != nil {
		return nil, err
	}
	configuration, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("a %T is no KubeSchedulerConfiguration", object)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(configuration); err != nil {
		return nil, err
	}
	for i := range configuration.Profiles {
		profile := &configuration.Profiles[i]
		if profile.SchedulerName == asked.Pod.Spec.SchedulerName {
			narrow(profile.Plugins, asked.Plugins)
			return profile, nil
		}
	}
	return nil, fmt.Errorf("no profile for scheduler name %q", asked.Pod.Spec.SchedulerName)
}

func narrow(all *config.Plugins, asked []string) {
	for _, set := range []*config.PluginSet{
		&all.PreEnqueue, &all.QueueSort, &all.PreFilter, &all.Filter, &all.PostFilter, &all.PreScore, &all.Score,
		&all.Reserve, &all.Permit, &all.PreBind, &all.Bind, &all.PostBind, &all.MultiPoint, &all.PlacementGenerate,
		&all.PlacementScore, &all.PodGroupPostFilter,
	} {
		set.Enabled = slices.DeleteFunc(set.Enabled, func(plugin config.Plugin) bool {
			return !slices.Contains(asked, plugin.Name)
		})
	}
}

func argumentsOf(profile *config.KubeSchedulerProfile, plugin string) runtime.Object {
	for _, entry := range profile.PluginConfig {
		if entry.Name == plugin {
			return entry.Args
		}
	}
	return nil
}

// ask notes what one filter says about each node, whatever the others say.
func ask(ctx context.Context, said *answer, plugin fwk.Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) {
	state := framework.NewCycleState()
	if early, ok := plugin.(fwk.PreFilterPlugin); ok {
		_, status := early.PreFilter(ctx, state, pod, nodes)
		if status.IsSkip() {
			return
		}
		if !status.IsSuccess() {
			said.Rejected = verdictOf(status)
			return
		}
	}
	for _, node := range nodes {
		status := plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, node)
		if status.IsSuccess() {
			continue
		}
		name := node.Node().Name
		if said.Verdicts[name] == nil {
			said.Verdicts[name] = map[string]*verdict{}
		}
		said.Verdicts[name][plugin.Name()] = verdictOf(status)
	}
}

// score runs the whole cycle, filters included, so that the scores are those of the nodes it leaves.
func score(ctx context.Context, said *answer, handle framework.Framework, pod *v1.Pod, nodes []fwk.NodeInfo) error {
	state := framework.NewCycleState()
	narrowed, status, _ := handle.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return nil
	}
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(node.Node().Name) {
			continue
		}
		if handle.RunFilterPlugins(ctx, state, pod, node).IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	said.Scores = map[string]map[string]int64{}
	if len(feasible) == 0 {
		return nil
	}
	if status := handle.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		return status.AsError()
	}
	scored, status := handle.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		return status.AsError()
	}
	for _, node := range scored {
		by := map[string]int64{"total": node.TotalScore}
		for _, plugin := range node.Scores {
			by[plugin.Name] = plugin.Score
		}
		said.Scores[node.Name] = by
	}
	return nil
}
