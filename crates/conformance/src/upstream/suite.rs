//! The suites and their seams: which package is tested, and which of its lines call tests/kube/upstream/seam instead.

use super::SuiteServer;
use super::edit::Edit;

/// A test package of another project, run on our components.
pub struct UpstreamSuite {
    /// The name on the command line and in the expectations.
    pub name: &'static str,
    /// The Go module it comes from.
    pub module: &'static str,
    /// The package under test first, then packages of the same module that it uses in an edited form.
    pub packages: &'static [TestPackage],
    /// The API servers it runs on.
    pub servers: &'static [SuiteServer],
    /// How long it may take.
    pub timeout_minutes: u32,
}

/// A package that is copied and edited.
pub struct TestPackage {
    /// Its folder in the module.
    pub source_folder: &'static str,
    /// Its folder in the build folder.
    pub build_folder: &'static str,
    /// Files that are edited; the others are copied as they are.
    pub edited_files: &'static [(&'static str, &'static [Edit])],
    /// Files that are not copied, because their tests need the internals of a process of Kubernetes.
    pub excluded_files: &'static [&'static str],
}

const KUBERNETES: &str = "k8s.io/kubernetes";
const SEAM: &str = "phalanx.dev/tests/kube/upstream/seam";
const BOTH_SERVERS: &[SuiteServer] = &[SuiteServer::Kube, SuiteServer::Embedded];
const KUBE: &[SuiteServer] = &[SuiteServer::Kube];

/// A step that makes kube-scheduler take one pod from its queue ends the test.
const SCHEDULE_ONE: Edit = Edit::ReplaceText("testCtx.Scheduler.ScheduleOne(testCtx.Ctx)", "seam.ScheduleOne(t)", 1);
const SCHEDULE_ONE_TWICE: Edit =
    Edit::ReplaceText("testCtx.Scheduler.ScheduleOne(testCtx.Ctx)", "seam.ScheduleOne(t)", 2);

/// If a file uses only `InitTestSchedulerWithNS` of test/integration/util, the seam replaces the whole package.
const REPLACE_UTIL: Edit = Edit::ReplaceText(
    r#"testutils "k8s.io/kubernetes/test/integration/util""#,
    r#"testutils "phalanx.dev/tests/kube/upstream/seam""#,
    1,
);
/// The options of the scheduler that a test may set have functions of the same names in the seam.
const REPLACE_OPTIONS: Edit = Edit::ReplaceText(
    "\t\"k8s.io/kubernetes/pkg/scheduler\"\n",
    "\tscheduler \"phalanx.dev/tests/kube/upstream/seam\"\n",
    1,
);
const REPLACE_STEPS: Edit = Edit::ReplaceText(
    "k8s.io/kubernetes/test/integration/scheduler/podgroup/stepsframework",
    "phalanx.dev/tests/kube/upstream/podgroup/stepsframework",
    1,
);

/// The steps of the tests of groups. Steps that inspect the queue of the scheduler in the process query ours instead.
const STEPS: TestPackage = TestPackage {
    source_folder: "test/integration/scheduler/podgroup/stepsframework",
    build_folder: "upstream/podgroup/stepsframework",
    edited_files: &[(
        "stepsframework.go",
        &[
            Edit::RemoveFunction("podInUnschedulableEntities"),
            Edit::RemoveFunction("podInIncompletePodGroupPods"),
            Edit::ReplaceBody("waitForPodsInActiveQ", "\treturn seam.NotObservable(\"the active queue\")"),
            Edit::ReplaceBody(
                "waitForPodsInUnschedulableEntities",
                "\treturn seam.WaitForRefusals(testCtx, ns, podNames)",
            ),
            Edit::ReplaceBody(
                "waitForPodsInIncompletePodGroupPods",
                "\treturn seam.WaitForRefusals(testCtx, ns, podNames)",
            ),
            Edit::ReplaceBody(
                "verifyPodSchedulingAttempts",
                "\treturn seam.VerifyAttempts(testCtx, ns, check.PodGroupName, check.Attempts)",
            ),
            Edit::ReplaceText(
                "_, ok := testCtx.Scheduler.SchedulingQueue.GetPod(p.Name, p.Namespace, p.Spec.SchedulingGroup)",
                "ok := seam.HasSeen(testCtx, p.Namespace, p.Name)",
                1,
            ),
            Edit::ReplaceText("\t\t\trunScheduleOne(testCtx)", "\t\t\terr = seam.NotObservable(\"a single cycle\")", 1),
            Edit::RemoveFunction("runScheduleOne"),
            Edit::ReplaceText("\t\"k8s.io/kubernetes/pkg/scheduler/backend/queue\"\n", "", 1),
            Edit::AddImport(SEAM),
        ],
    )],
    excluded_files: &[],
};

/// Every suite, in the order in which they run.
pub const SUITES: &[UpstreamSuite] = &[
    UpstreamSuite {
        name: "job",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/job",
            build_folder: "upstream/job",
            edited_files: &[(
                "job_test.go",
                &[
                    Edit::ReplaceBody(
                        "startJobControllerAndWaitForCaches",
                        "\ttb.Helper()\n\tif len(options) > 0 {\n\t\ttb.Fatal(\"needs the informers of the test's own \
                         process\")\n\t}\n\treturn seam.StartJobController(tb, restConfig)",
                    ),
                    Edit::RemoveFunction("createJobControllerWithSharedInformers"),
                    Edit::ReplaceText(
                        "jc, ctx, cancel := createJobControllerWithSharedInformers(t, restConfig, informerSet)",
                        "ctx, cancel := seam.StartJobController(t, restConfig)",
                        1,
                    ),
                    Edit::ReplaceText("\t\t\tgo jc.Run(ctx, 1)\n\t\t\trunGC()", "\t\t\trunGC()", 1),
                    Edit::ReplaceBody("resetMetrics", "\tseam.ResetMetrics()"),
                    Edit::ReplaceText(
                        "testutil.GetCounterMetricValue(counterVec.WithLabelValues(wantMetric.Labels...))",
                        "seam.CounterValue(counterVec.FQName(), counterVec.WithLabelValues(wantMetric.Labels...))",
                        1,
                    ),
                    Edit::ReplaceText(
                        "server := kubeapiservertesting.StartTestServerOrDie(t, nil, flags, framework.SharedEtcd())",
                        "server := seam.StartTestServer(t, flags)",
                        1,
                    ),
                    Edit::ReplaceText("\t\"k8s.io/component-base/metrics/testutil\"\n", "", 1),
                    Edit::ReplaceText(
                        "\tkubeapiservertesting \"k8s.io/kubernetes/cmd/kube-apiserver/app/testing\"\n",
                        "",
                        1,
                    ),
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: BOTH_SERVERS,
        timeout_minutes: 25,
    },
    UpstreamSuite {
        name: "cronjob",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/cronjob",
            build_folder: "upstream/cronjob",
            edited_files: &[(
                "cronjob_test.go",
                &[
                    Edit::ReplaceText(
                        "server := kubeapiservertesting.StartTestServerOrDie(t, nil, framework.DefaultTestServerFlags(), \
                         framework.SharedEtcd())",
                        "server := seam.StartTestServer(t, framework.DefaultTestServerFlags())",
                        1,
                    ),
                    // Created but never run, they would leave goroutines behind, which the suite detects.
                    Edit::ReplaceText(
                        "\tcjc, err := cronjob.NewControllerV2(ctx, informerSet.Batch().V1().Jobs(), \
                         informerSet.Batch().V1().CronJobs(), clientSet)\n\tif err != nil {\n\t\tt.Fatalf(\"Error creating \
                         CronJob controller: %v\", err)\n\t}\n\tjc, err := job.NewController(ctx, clientSet, \
                         informerSet.Core().V1().Pods(), informerSet.Batch().V1().Jobs(), nil, nil)\n\tif err != nil \
                         {\n\t\tt.Fatalf(\"Error creating Job controller: %v\", err)\n\t}\n",
                        "",
                        1,
                    ),
                    Edit::ReplaceText(
                        "return server.TearDownFn, cjc, jc, informerSet, clientSet",
                        "return server.TearDownFn, nil, nil, informerSet, clientSet",
                        1,
                    ),
                    Edit::ReplaceText(
                        "closeFn, cjc, jc, informerSet, clientSet := setup(tCtx, t)",
                        "closeFn, _, _, informerSet, clientSet := setup(tCtx, t)",
                        1,
                    ),
                    Edit::ReplaceText(
                        "\tgo cjc.Run(tCtx, 1)\n\tgo jc.Run(tCtx, 1)\n",
                        "\tseam.StartControllers(t, \"cronjob,job\")\n",
                        1,
                    ),
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: BOTH_SERVERS,
        timeout_minutes: 10,
    },
    UpstreamSuite {
        name: "podgc",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/podgc",
            build_folder: "upstream/podgc",
            edited_files: &[(
                "podgc_test.go",
                &[
                    Edit::ReplaceBody("setup", "\treturn seam.StartPodGC(t, name)"),
                    Edit::ReplaceText("\t\"k8s.io/client-go/informers\"\n", "", 1),
                    Edit::ReplaceText("\t\"k8s.io/kubernetes/pkg/controller/podgc\"\n", "", 1),
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: BOTH_SERVERS,
        timeout_minutes: 10,
    },
    UpstreamSuite {
        name: "podgroup",
        module: KUBERNETES,
        packages: &[
            TestPackage {
                source_folder: "test/integration/scheduler/podgroup",
                build_folder: "upstream/podgroup",
                edited_files: &[
                    ("cpg_test.go", &[REPLACE_UTIL, REPLACE_OPTIONS, REPLACE_STEPS]),
                    ("podgroup_affinity_test.go", &[REPLACE_UTIL, REPLACE_OPTIONS, REPLACE_STEPS]),
                    (
                        "podgroup_pvc_test.go",
                        &[
                            Edit::ReplaceText("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 1),
                            REPLACE_OPTIONS,
                            REPLACE_STEPS,
                            Edit::AddImport(SEAM),
                        ],
                    ),
                    (
                        "podgroup_test.go",
                        &[
                            Edit::ReplaceText("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 4),
                            REPLACE_OPTIONS,
                            REPLACE_STEPS,
                            Edit::AddImport(SEAM),
                        ],
                    ),
                    (
                        "queueing_test.go",
                        &[
                            Edit::ReplaceText(
                                "go testCtx.Scheduler.Run(testCtx.SchedulerCtx)",
                                "seam.Run(t, testCtx)",
                                1,
                            ),
                            REPLACE_OPTIONS,
                            REPLACE_STEPS,
                            Edit::AddImport(SEAM),
                        ],
                    ),
                ],
                excluded_files: &[],
            },
            STEPS,
        ],
        servers: KUBE,
        timeout_minutes: 20,
    },
    UpstreamSuite {
        name: "podgroup-queueing",
        module: KUBERNETES,
        packages: &[
            TestPackage {
                source_folder: "test/integration/scheduler/podgroup/queueing",
                build_folder: "upstream/podgroup-queueing",
                edited_files: &[(
                    "queueing_test.go",
                    &[
                        Edit::ReplaceText("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 2),
                        REPLACE_OPTIONS,
                        REPLACE_STEPS,
                        Edit::AddImport(SEAM),
                    ],
                )],
                excluded_files: &[],
            },
            STEPS,
        ],
        servers: KUBE,
        timeout_minutes: 20,
    },
    UpstreamSuite {
        name: "topology",
        module: KUBERNETES,
        packages: &[
            TestPackage {
                source_folder: "test/integration/scheduler/podgroup/topology_aware_scheduling",
                build_folder: "upstream/topology",
                edited_files: &[
                    ("tas_test.go", &[REPLACE_UTIL, REPLACE_OPTIONS, REPLACE_STEPS]),
                    ("cpg_tas_test.go", &[REPLACE_UTIL, REPLACE_OPTIONS, REPLACE_STEPS]),
                ],
                excluded_files: &[],
            },
            STEPS,
        ],
        servers: KUBE,
        timeout_minutes: 40,
    },
    UpstreamSuite {
        name: "preemption",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/preemption",
            build_folder: "upstream/preemption",
            edited_files: &[
                (
                    "preemption_test.go",
                    &[
                        Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 1),
                        Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 2),
                        SCHEDULE_ONE_TWICE,
                        REPLACE_OPTIONS,
                        Edit::AddImport(SEAM),
                    ],
                ),
                (
                    "deferred_resize_preemption_test.go",
                    &[
                        Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 3),
                        REPLACE_OPTIONS,
                        Edit::AddImport(SEAM),
                    ],
                ),
            ],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 40,
    },
    UpstreamSuite {
        name: "preemption-podgroup",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/preemption/podgroup",
            build_folder: "upstream/preemption-podgroup",
            edited_files: &[(
                "podgrouppreemption_test.go",
                &[
                    Edit::ReplaceText("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 5),
                    Edit::ReplaceText(
                        "_, ok := testCtx.Scheduler.SchedulingQueue.GetPod(p.Name, p.Namespace, p.Spec.SchedulingGroup)",
                        "ok := seam.HasSeen(testCtx, p.Namespace, p.Name)",
                        1,
                    ),
                    REPLACE_OPTIONS,
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 60,
    },
    UpstreamSuite {
        name: "preemption-misc",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/preemption/misc",
            build_folder: "upstream/preemption-misc",
            edited_files: &[(
                "miscpreemption_test.go",
                &[
                    Edit::ReplaceText("testutils.InitTestSchedulerWithNS", "seam.InitTestSchedulerWithNS", 1),
                    Edit::ReplaceText("testutils.InitTestDisablePreemption", "seam.InitTestDisablePreemption", 1),
                    Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 2),
                    REPLACE_OPTIONS,
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 40,
    },
    UpstreamSuite {
        name: "preemption-nominated",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/preemption/nominatednodename",
            build_folder: "upstream/preemption-nominated",
            edited_files: &[(
                "nominatednodename_test.go",
                &[
                    Edit::ReplaceText("testutils.InitTestSchedulerWithNS", "seam.InitTestSchedulerWithNS", 1),
                    Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 1),
                    REPLACE_OPTIONS,
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 20,
    },
    UpstreamSuite {
        name: "nominated-node-name",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/nominated_node_name",
            build_folder: "upstream/nominated-node-name",
            edited_files: &[(
                "nominated_node_name_test.go",
                &[
                    Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 2),
                    Edit::ReplaceText(
                        "schedulerutils.InitTestSchedulerForFrameworkTest(",
                        "seam.InitTestSchedulerForFrameworkTest(",
                        2,
                    ),
                    SCHEDULE_ONE,
                    REPLACE_OPTIONS,
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 20,
    },
    UpstreamSuite {
        name: "filters",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/filters",
            build_folder: "upstream/filters",
            edited_files: &[(
                "filters_test.go",
                &[
                    Edit::ReplaceText("testutils.InitTestSchedulerWithNS", "seam.InitTestSchedulerWithNS", 2),
                    Edit::ReplaceText(
                        "pendingPods, s := testCtx.Scheduler.SchedulingQueue.PendingPods()",
                        "pendingPods, s := seam.PendingPods(t, testCtx)",
                        1,
                    ),
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 30,
    },
    UpstreamSuite {
        name: "scoring",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/scoring",
            build_folder: "upstream/scoring",
            edited_files: &[(
                "priorities_test.go",
                &[
                    Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 2),
                    REPLACE_OPTIONS,
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 20,
    },
    UpstreamSuite {
        name: "taint",
        module: KUBERNETES,
        packages: &[TestPackage {
            source_folder: "test/integration/scheduler/taint",
            build_folder: "upstream/taint",
            edited_files: &[(
                "taint_test.go",
                &[
                    Edit::ReplaceText("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 1),
                    Edit::AddImport(SEAM),
                ],
            )],
            excluded_files: &[],
        }],
        servers: KUBE,
        timeout_minutes: 20,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_unique_names_a_package_and_a_server() {
        for (at, suite) in SUITES.iter().enumerate() {
            assert!(
                !suite.packages.is_empty() && !suite.servers.is_empty() && suite.timeout_minutes > 0,
                "{}",
                suite.name
            );
            assert!(SUITES[..at].iter().all(|other| other.name != suite.name), "{} twice", suite.name);
        }
    }
}
