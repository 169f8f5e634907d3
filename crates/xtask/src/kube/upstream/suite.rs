//! The suites and their seams: which package is tested, and which of its lines call tests/kube/upstream/seam instead.

use super::Home;
use super::edit::Edit;

/// A test package of another project, run on our components.
pub struct Suite {
    /// On the command line and in the expectations.
    pub name: &'static str,
    /// The Go module it comes from.
    pub module: &'static str,
    /// The package under test first, then packages of the same module that it uses in an edited form.
    pub packages: &'static [Package],
    /// The API servers it runs on.
    pub homes: &'static [Home],
    /// How long it may take.
    pub minutes_max: u32,
}

/// A package that is copied and edited.
pub struct Package {
    /// Its folder in the module.
    pub from: &'static str,
    /// Its folder in the build folder.
    pub to: &'static str,
    /// Files that are edited; the others are copied as they are.
    pub files: &'static [(&'static str, &'static [Edit])],
    /// Files that are not copied: nothing in them can run without the inside of a process of Kubernetes.
    pub left_out: &'static [&'static str],
}

const KUBERNETES: &str = "k8s.io/kubernetes";
const SEAM: &str = "phalanx.dev/tests/kube/upstream/seam";
const BOTH: &[Home] = &[Home::Kube, Home::Embedded];
const KUBE: &[Home] = &[Home::Kube];

/// A step that has kube-scheduler take one pod from its queue ends the test.
const SCHEDULE_ONE: Edit = Edit::Text("testCtx.Scheduler.ScheduleOne(testCtx.Ctx)", "seam.ScheduleOne(t)", 1);
const SCHEDULE_ONE_TWICE: Edit = Edit::Text("testCtx.Scheduler.ScheduleOne(testCtx.Ctx)", "seam.ScheduleOne(t)", 2);

/// Where a file uses nothing of test/integration/util but `InitTestSchedulerWithNS`, the seam takes its place whole.
const UTIL_IS_SEAM: Edit = Edit::Text(
    r#"testutils "k8s.io/kubernetes/test/integration/util""#,
    r#"testutils "phalanx.dev/tests/kube/upstream/seam""#,
    1,
);
/// The options of the scheduler that a test may set have functions of the same names in the seam.
const OPTIONS_ARE_SEAM: Edit =
    Edit::Text("\t\"k8s.io/kubernetes/pkg/scheduler\"\n", "\tscheduler \"phalanx.dev/tests/kube/upstream/seam\"\n", 1);
const OUR_STEPS: Edit = Edit::Text(
    "k8s.io/kubernetes/test/integration/scheduler/podgroup/stepsframework",
    "phalanx.dev/tests/kube/upstream/podgroup/stepsframework",
    1,
);

/// The steps of which the tests of groups are made. Those that look into the queue of the scheduler in the process ask
/// ours instead.
const STEPS: Package = Package {
    from: "test/integration/scheduler/podgroup/stepsframework",
    to: "upstream/podgroup/stepsframework",
    files: &[(
        "stepsframework.go",
        &[
            Edit::Remove("podInUnschedulableEntities"),
            Edit::Remove("podInIncompletePodGroupPods"),
            Edit::Body("waitForPodsInActiveQ", "\treturn seam.NotObservable(\"the active queue\")"),
            Edit::Body("waitForPodsInUnschedulableEntities", "\treturn seam.WaitForRefusals(testCtx, ns, podNames)"),
            Edit::Body("waitForPodsInIncompletePodGroupPods", "\treturn seam.WaitForRefusals(testCtx, ns, podNames)"),
            Edit::Body(
                "verifyPodSchedulingAttempts",
                "\treturn seam.VerifyAttempts(testCtx, ns, check.PodGroupName, check.Attempts)",
            ),
            Edit::Text(
                "_, ok := testCtx.Scheduler.SchedulingQueue.GetPod(p.Name, p.Namespace, p.Spec.SchedulingGroup)",
                "ok := seam.HasSeen(testCtx, p.Namespace, p.Name)",
                1,
            ),
            Edit::Text("\t\t\trunScheduleOne(testCtx)", "\t\t\terr = seam.NotObservable(\"a single cycle\")", 1),
            Edit::Remove("runScheduleOne"),
            Edit::Text("\t\"k8s.io/kubernetes/pkg/scheduler/backend/queue\"\n", "", 1),
            Edit::Import(SEAM),
        ],
    )],
    left_out: &[],
};

/// Every suite, in the order in which they run.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "job",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/job",
            to: "upstream/job",
            files: &[(
                "job_test.go",
                &[
                    Edit::Body(
                        "startJobControllerAndWaitForCaches",
                        "\ttb.Helper()\n\tif len(options) > 0 {\n\t\ttb.Fatal(\"needs the informers of the test's own \
                         process\")\n\t}\n\treturn seam.StartJobController(tb, restConfig)",
                    ),
                    Edit::Remove("createJobControllerWithSharedInformers"),
                    Edit::Text(
                        "jc, ctx, cancel := createJobControllerWithSharedInformers(t, restConfig, informerSet)",
                        "ctx, cancel := seam.StartJobController(t, restConfig)",
                        1,
                    ),
                    Edit::Text("\t\t\tgo jc.Run(ctx, 1)\n\t\t\trunGC()", "\t\t\trunGC()", 1),
                    Edit::Body("resetMetrics", "\tseam.ResetMetrics()"),
                    Edit::Text(
                        "testutil.GetCounterMetricValue(counterVec.WithLabelValues(wantMetric.Labels...))",
                        "seam.CounterValue(counterVec.FQName(), counterVec.WithLabelValues(wantMetric.Labels...))",
                        1,
                    ),
                    Edit::Text(
                        "server := kubeapiservertesting.StartTestServerOrDie(t, nil, flags, framework.SharedEtcd())",
                        "server := seam.StartTestServer(t, flags)",
                        1,
                    ),
                    Edit::Text("\t\"k8s.io/component-base/metrics/testutil\"\n", "", 1),
                    Edit::Text("\tkubeapiservertesting \"k8s.io/kubernetes/cmd/kube-apiserver/app/testing\"\n", "", 1),
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: BOTH,
        minutes_max: 25,
    },
    Suite {
        name: "cronjob",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/cronjob",
            to: "upstream/cronjob",
            files: &[(
                "cronjob_test.go",
                &[
                    Edit::Text(
                        "server := kubeapiservertesting.StartTestServerOrDie(t, nil, framework.DefaultTestServerFlags(), \
                         framework.SharedEtcd())",
                        "server := seam.StartTestServer(t, framework.DefaultTestServerFlags())",
                        1,
                    ),
                    // Made and never run, they would leave goroutines behind, which the suite looks for.
                    Edit::Text(
                        "\tcjc, err := cronjob.NewControllerV2(ctx, informerSet.Batch().V1().Jobs(), \
                         informerSet.Batch().V1().CronJobs(), clientSet)\n\tif err != nil {\n\t\tt.Fatalf(\"Error creating \
                         CronJob controller: %v\", err)\n\t}\n\tjc, err := job.NewController(ctx, clientSet, \
                         informerSet.Core().V1().Pods(), informerSet.Batch().V1().Jobs(), nil, nil)\n\tif err != nil \
                         {\n\t\tt.Fatalf(\"Error creating Job controller: %v\", err)\n\t}\n",
                        "",
                        1,
                    ),
                    Edit::Text(
                        "return server.TearDownFn, cjc, jc, informerSet, clientSet",
                        "return server.TearDownFn, nil, nil, informerSet, clientSet",
                        1,
                    ),
                    Edit::Text(
                        "closeFn, cjc, jc, informerSet, clientSet := setup(tCtx, t)",
                        "closeFn, _, _, informerSet, clientSet := setup(tCtx, t)",
                        1,
                    ),
                    Edit::Text(
                        "\tgo cjc.Run(tCtx, 1)\n\tgo jc.Run(tCtx, 1)\n",
                        "\tseam.StartControllers(t, \"cronjob,job\")\n",
                        1,
                    ),
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: BOTH,
        minutes_max: 10,
    },
    Suite {
        name: "podgc",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/podgc",
            to: "upstream/podgc",
            files: &[(
                "podgc_test.go",
                &[
                    Edit::Body("setup", "\treturn seam.StartPodGC(t, name)"),
                    Edit::Text("\t\"k8s.io/client-go/informers\"\n", "", 1),
                    Edit::Text("\t\"k8s.io/kubernetes/pkg/controller/podgc\"\n", "", 1),
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: BOTH,
        minutes_max: 10,
    },
    Suite {
        name: "podgroup",
        module: KUBERNETES,
        packages: &[
            Package {
                from: "test/integration/scheduler/podgroup",
                to: "upstream/podgroup",
                files: &[
                    ("cpg_test.go", &[UTIL_IS_SEAM, OPTIONS_ARE_SEAM, OUR_STEPS]),
                    ("podgroup_affinity_test.go", &[UTIL_IS_SEAM, OPTIONS_ARE_SEAM, OUR_STEPS]),
                    (
                        "podgroup_pvc_test.go",
                        &[
                            Edit::Text("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 1),
                            OPTIONS_ARE_SEAM,
                            OUR_STEPS,
                            Edit::Import(SEAM),
                        ],
                    ),
                    (
                        "podgroup_test.go",
                        &[
                            Edit::Text("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 4),
                            OPTIONS_ARE_SEAM,
                            OUR_STEPS,
                            Edit::Import(SEAM),
                        ],
                    ),
                    (
                        "queueing_test.go",
                        &[
                            Edit::Text("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 1),
                            OPTIONS_ARE_SEAM,
                            OUR_STEPS,
                            Edit::Import(SEAM),
                        ],
                    ),
                ],
                left_out: &[],
            },
            STEPS,
        ],
        homes: KUBE,
        minutes_max: 20,
    },
    Suite {
        name: "podgroup-queueing",
        module: KUBERNETES,
        packages: &[
            Package {
                from: "test/integration/scheduler/podgroup/queueing",
                to: "upstream/podgroup-queueing",
                files: &[(
                    "queueing_test.go",
                    &[
                        Edit::Text("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 2),
                        OPTIONS_ARE_SEAM,
                        OUR_STEPS,
                        Edit::Import(SEAM),
                    ],
                )],
                left_out: &[],
            },
            STEPS,
        ],
        homes: KUBE,
        minutes_max: 20,
    },
    Suite {
        name: "topology",
        module: KUBERNETES,
        packages: &[
            Package {
                from: "test/integration/scheduler/podgroup/topology_aware_scheduling",
                to: "upstream/topology",
                files: &[
                    ("tas_test.go", &[UTIL_IS_SEAM, OPTIONS_ARE_SEAM, OUR_STEPS]),
                    ("cpg_tas_test.go", &[UTIL_IS_SEAM, OPTIONS_ARE_SEAM, OUR_STEPS]),
                ],
                left_out: &[],
            },
            STEPS,
        ],
        homes: KUBE,
        minutes_max: 40,
    },
    Suite {
        name: "preemption",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/preemption",
            to: "upstream/preemption",
            files: &[
                (
                    "preemption_test.go",
                    &[
                        Edit::Text("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 1),
                        Edit::Text("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 2),
                        SCHEDULE_ONE_TWICE,
                        OPTIONS_ARE_SEAM,
                        Edit::Import(SEAM),
                    ],
                ),
                (
                    "deferred_resize_preemption_test.go",
                    &[
                        Edit::Text("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 3),
                        OPTIONS_ARE_SEAM,
                        Edit::Import(SEAM),
                    ],
                ),
            ],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 40,
    },
    Suite {
        name: "preemption-podgroup",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/preemption/podgroup",
            to: "upstream/preemption-podgroup",
            files: &[(
                "podgrouppreemption_test.go",
                &[
                    Edit::Text("testutils.InitTestSchedulerWithNS(", "seam.InitTestSchedulerWithNS(", 5),
                    Edit::Text(
                        "_, ok := testCtx.Scheduler.SchedulingQueue.GetPod(p.Name, p.Namespace, p.Spec.SchedulingGroup)",
                        "ok := seam.HasSeen(testCtx, p.Namespace, p.Name)",
                        1,
                    ),
                    OPTIONS_ARE_SEAM,
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 60,
    },
    Suite {
        name: "preemption-misc",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/preemption/misc",
            to: "upstream/preemption-misc",
            files: &[(
                "miscpreemption_test.go",
                &[
                    Edit::Text("testutils.InitTestSchedulerWithNS", "seam.InitTestSchedulerWithNS", 1),
                    Edit::Text("testutils.InitTestDisablePreemption", "seam.InitTestDisablePreemption", 1),
                    Edit::Text("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 2),
                    OPTIONS_ARE_SEAM,
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 40,
    },
    Suite {
        name: "preemption-nominated",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/preemption/nominatednodename",
            to: "upstream/preemption-nominated",
            files: &[(
                "nominatednodename_test.go",
                &[
                    Edit::Text("testutils.InitTestSchedulerWithNS", "seam.InitTestSchedulerWithNS", 1),
                    Edit::Text("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 1),
                    OPTIONS_ARE_SEAM,
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 20,
    },
    Suite {
        name: "nominated-node-name",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/nominated_node_name",
            to: "upstream/nominated-node-name",
            files: &[(
                "nominated_node_name_test.go",
                &[
                    Edit::Text("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 2),
                    Edit::Text(
                        "schedulerutils.InitTestSchedulerForFrameworkTest(",
                        "seam.InitTestSchedulerForFrameworkTest(",
                        2,
                    ),
                    SCHEDULE_ONE,
                    OPTIONS_ARE_SEAM,
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 20,
    },
    Suite {
        name: "filters",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/filters",
            to: "upstream/filters",
            files: &[(
                "filters_test.go",
                &[
                    Edit::Text("testutils.InitTestSchedulerWithNS", "seam.InitTestSchedulerWithNS", 2),
                    Edit::Text(
                        "pendingPods, s := testCtx.Scheduler.SchedulingQueue.PendingPods()",
                        "pendingPods, s := seam.PendingPods(t, testCtx)",
                        1,
                    ),
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 30,
    },
    Suite {
        name: "scoring",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/scoring",
            to: "upstream/scoring",
            files: &[(
                "priorities_test.go",
                &[
                    Edit::Text("go testCtx.Scheduler.Run(testCtx.Ctx)", "seam.Run(t, testCtx)", 2),
                    OPTIONS_ARE_SEAM,
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 20,
    },
    Suite {
        name: "taint",
        module: KUBERNETES,
        packages: &[Package {
            from: "test/integration/scheduler/taint",
            to: "upstream/taint",
            files: &[(
                "taint_test.go",
                &[
                    Edit::Text("go testCtx.Scheduler.Run(testCtx.SchedulerCtx)", "seam.Run(t, testCtx)", 1),
                    Edit::Import(SEAM),
                ],
            )],
            left_out: &[],
        }],
        homes: KUBE,
        minutes_max: 20,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_named_once_and_have_a_package_and_a_home() {
        for (at, suite) in SUITES.iter().enumerate() {
            assert!(!suite.packages.is_empty() && !suite.homes.is_empty() && suite.minutes_max > 0, "{}", suite.name);
            assert!(SUITES[..at].iter().all(|other| other.name != suite.name), "{} twice", suite.name);
        }
    }
}
