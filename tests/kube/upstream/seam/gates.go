package seam

import (
	"fmt"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// Gates that a test may have changed and that Phalanx has, too.
var shared = []featuregate.Feature{
	features.GenericWorkload,
	features.WorkloadWithJob,
	features.CompositePodGroup,
	features.TopologyAwareWorkloadScheduling,
	features.PodGroupPreemptionPolicy,
	features.DRAWorkloadResourceClaims,
}

// gates are the values that the test has given to these gates, in the form of --feature-gates.
func gates() string {
	values := make([]string, 0, len(shared))
	for _, gate := range shared {
		values = append(values, fmt.Sprintf("%s=%t", gate, utilfeature.DefaultFeatureGate.Enabled(gate)))
	}
	return strings.Join(values, ",")
}
