// Runs the plugins of the real kube-scheduler on a pod and a cluster.
//
// Each line of standard input is one request in JSON: a KubeSchedulerConfiguration, nodes, the pods that run on them and
// one pending pod. Each line of standard output is its response: the verdict of every filter on every node, the feasible
// nodes, and their weighted scores. `cargo xtask conformance scheduler` compares the responses with those of Phalanx.
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

type request struct {
	// Plugins to run. The others need more than nodes and pods.
	Plugins       []string        `json:"plugins"`
	Configuration json.RawMessage `json:"configuration"`
	Nodes         []*v1.Node      `json:"nodes"`
	Pods          []*v1.Pod       `json:"pods"`
	Pod           *v1.Pod         `json:"pod"`
}

type response struct {
	// Error is why the request itself was refused, such as a bad configuration.
	Error string `json:"error,omitempty"`
	// Gate is why the pod does not enter the queue.
	Gate string `json:"gate,omitempty"`
	// Filters lists the filters in their order.
	Filters []string `json:"filters,omitempty"`
	// Weights of the scores.
	Weights map[string]int32 `json:"weights,omitempty"`
	// Rejected is the verdict of a PreFilter plugin that refused the pod on all nodes.
	Rejected *verdict `json:"rejected,omitempty"`
	// Verdicts of filters that reject a node, by node and filter.
	Verdicts map[string]map[string]*verdict `json:"verdicts,omitempty"`
	// Scores of the nodes that pass all filters, by node and plugin; "total" is their sum.
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
		resp, err := json.Marshal(respond(in.Bytes()))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		out.Write(append(resp, '\n'))
		out.Flush()
	}
}

func respond(line []byte) *response {
	var req request
	if err := json.Unmarshal(line, &req); err != nil {
		return &response{Error: err.Error()}
	}
	resp, err := evaluate(&req)
	if err != nil {
		return &response{Error: err.Error()}
	}
	return resp
}

func evaluate(req *request) (*response, error) {
	profile, err := profileFor(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	snapshot := cache.NewSnapshot(req.Pods, req.Nodes)
	dependencies, err := emptyDependencies()
	if err != nil {
		return nil, err
	}
	registry := plugins.NewInTreeRegistry()
	handle, err := frameworkruntime.NewFramework(ctx, registry, profile,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithClientSet(dependencies.client),
		frameworkruntime.WithInformerFactory(dependencies.informers),
		frameworkruntime.WithSharedDRAManager(dependencies.devices))
	if err != nil {
		return nil, err
	}
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		return nil, err
	}
	resp := &response{Weights: map[string]int32{}, Verdicts: map[string]map[string]*verdict{}}
	for _, gate := range handle.PreEnqueuePlugins() {
		if status := gate.PreEnqueue(ctx, req.Pod); !status.IsSuccess() {
			resp.Gate = status.Message()
		}
	}
	listed := handle.ListPlugins()
	for _, score := range listed.Score.Enabled {
		resp.Weights[score.Name] = score.Weight
	}
	for _, filter := range listed.Filter.Enabled {
		resp.Filters = append(resp.Filters, filter.Name)
		plugin, err := registry[filter.Name](ctx, argumentsOf(profile, filter.Name), handle)
		if err != nil {
			return nil, err
		}
		runFilter(ctx, resp, plugin, req.Pod, nodes)
	}
	return resp, score(ctx, resp, handle, req.Pod, nodes)
}

// dependencies are what plugins need besides nodes and pods: an API without objects, and so without devices.
type dependencies struct {
	client    *clientfake.Clientset
	informers informers.SharedInformerFactory
	devices   *dynamicresources.DefaultDRAManager
}

var emptyDependencies = sync.OnceValues(func() (*dependencies, error) {
	ctx := context.Background()
	client := clientfake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	resources := factory.Resource().V1()
	slices, err := tracker.StartTracker(ctx, tracker.Options{SliceInformer: resources.ResourceSlices(), KubeClient: client})
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(klog.Background(), resources.ResourceClaims().Informer(), "claims", "", nil)
	return &dependencies{client, factory, dynamicresources.NewDRAManager(ctx, claims, slices, factory)}, nil
})

// profileFor picks the profile of the pod's scheduler name, limited to the requested plugins.
func profileFor(req *request) (*config.KubeSchedulerProfile, error) {
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(req.Configuration, nil, nil)
	if err != nil {
		return nil, err
	}
	configuration, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("a %T is not a KubeSchedulerConfiguration", object)
	}
	if err := validation.ValidateKubeSchedulerConfiguration(configuration); err != nil {
		return nil, err
	}
	for i := range configuration.Profiles {
		profile := &configuration.Profiles[i]
		if profile.SchedulerName == req.Pod.Spec.SchedulerName {
			narrow(profile.Plugins, req.Plugins)
			return profile, nil
		}
	}
	return nil, fmt.Errorf("no profile for scheduler name %q", req.Pod.Spec.SchedulerName)
}

func narrow(all *config.Plugins, requested []string) {
	for _, set := range []*config.PluginSet{
		&all.PreEnqueue, &all.QueueSort, &all.PreFilter, &all.Filter, &all.PostFilter, &all.PreScore, &all.Score,
		&all.Reserve, &all.Permit, &all.PreBind, &all.Bind, &all.PostBind, &all.MultiPoint, &all.PlacementGenerate,
		&all.PlacementScore, &all.PodGroupPostFilter,
	} {
		set.Enabled = slices.DeleteFunc(set.Enabled, func(plugin config.Plugin) bool {
			return !slices.Contains(requested, plugin.Name)
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

// runFilter records the verdict of one filter on each node, independent of the other filters.
func runFilter(ctx context.Context, resp *response, plugin fwk.Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) {
	state := framework.NewCycleState()
	if early, ok := plugin.(fwk.PreFilterPlugin); ok {
		_, status := early.PreFilter(ctx, state, pod, nodes)
		if status.IsSkip() {
			return
		}
		if !status.IsSuccess() {
			resp.Rejected = verdictOf(status)
			return
		}
	}
	for _, node := range nodes {
		status := plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, node)
		if status.IsSuccess() {
			continue
		}
		name := node.Node().Name
		if resp.Verdicts[name] == nil {
			resp.Verdicts[name] = map[string]*verdict{}
		}
		resp.Verdicts[name][plugin.Name()] = verdictOf(status)
	}
}

// score runs the whole cycle, filters included, so that only feasible nodes are scored.
func score(ctx context.Context, resp *response, handle framework.Framework, pod *v1.Pod, nodes []fwk.NodeInfo) error {
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
	resp.Scores = map[string]map[string]int64{}
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
		resp.Scores[node.Name] = by
	}
	return nil
}
