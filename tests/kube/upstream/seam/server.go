package seam

import (
	"sync"
	"testing"

	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kubeapiservertesting "k8s.io/kubernetes/cmd/kube-apiserver/app/testing"
	"k8s.io/kubernetes/test/integration/framework"
)

// startServer starts `phalanx up` with an empty store and without controllers, scheduler and nodes.
func startServer(tb testing.TB) (*restclient.Config, *Process) {
	tb.Helper()
	folder := temporaryFolder(tb)
	kubeconfig := folder + "/admin.kubeconfig"
	process := start(tb, folder, "up", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig,
		"--without", "scheduler,controllers,nodes", "--feature-gates", gates())
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		tb.Fatalf("kubeconfig of phalanx up: %v", err)
	}
	config.QPS, config.Burst = 10000, 10000
	kubeconfigs.Store(config.Host, kubeconfig)
	return config, process
}

// StartTestServer replaces the call that starts kube-apiserver. It starts kube-apiserver or `phalanx up`.
func StartTestServer(tb testing.TB, flags []string) kubeapiservertesting.TestServer {
	tb.Helper()
	if !embedded() {
		server := kubeapiservertesting.StartTestServerOrDie(tb, nil, flags, framework.SharedEtcd())
		servers.Store(tb, server.ClientConfig)
		return *server
	}
	config, process := startServer(tb)
	servers.Store(tb, config)
	return kubeapiservertesting.TestServer{ClientConfig: config, TearDownFn: process.Kill}
}

// servers maps each test to the client configuration of its server.
var servers sync.Map

// StartControllers starts `phalanx controllers --controllers NAMES` on the server of this test.
func StartControllers(tb testing.TB, names string) {
	tb.Helper()
	config, found := servers.Load(tb)
	if !found {
		tb.Fatal("this test has started no server")
	}
	startControllers(tb, config.(*restclient.Config), names)
}
