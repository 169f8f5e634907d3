package seam

import (
	"testing"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/test/integration/framework"
	testutils "k8s.io/kubernetes/test/integration/util"
	"k8s.io/kubernetes/test/utils/ktesting"
)

// podGCSettings are the settings that the suite uses for the collector in its process.
const podGCSettings = `  terminatedPodGCThreshold: 0
  podGCPeriod: 500ms
  podGCQuarantine: 1s
`

// StartPodGC starts a server and `phalanx controllers --controllers podgc` on it.
func StartPodGC(t *testing.T, namespace string) *testutils.TestContext {
	t.Helper()
	context := apiServer(t, namespace)
	startControllersWith(t, context.KubeConfig, "podgc", podGCSettings)
	return context
}

// apiServer is testutils.InitTestAPIServer, or a context of the same kind for `phalanx up`.
func apiServer(t *testing.T, namespace string) *testutils.TestContext {
	t.Helper()
	if !embedded() {
		return testutils.InitTestAPIServer(t, namespace, nil)
	}
	config, _ := startServer(t)
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &testutils.TestContext{
		Ctx:        ktesting.Init(t),
		ClientSet:  client,
		KubeConfig: config,
		NS:         framework.CreateNamespaceOrDie(client, namespace, t),
	}
}
