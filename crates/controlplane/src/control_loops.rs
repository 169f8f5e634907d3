//! The control loops of Phalanx, one value each.
//!
//! In: the caches, clients, clock and settings of a process.
//! Out: one future per control loop, and the rights that it needs.
//! Holds: no other list of control loops exists. What starts, which caches fill, the names in `--controllers` and the
//! ClusterRoles of the guide come from here.

use api::gates::Gate;
use api::kinds::{self, ApiResource};
use api::views::{
    CompositePodGroupView, CronJobView, JobView, NamespaceView, NodeView, PodDisruptionBudgetView, PodGroupView,
    PodView, WorkloadView,
};
use apiserver::request::Verb;
use apiserver::request::Verb::{Create, Delete, DeleteCollection, Get, List, Patch, Update};
use futures::future::BoxFuture;
use std::collections::BTreeSet;

use crate::caches::CachedKind;
use crate::config::Component;
use crate::control_loop::{ControlLoop, Right, RightTarget, Role};
use crate::process::Process;

/// Every control loop; those of a component in the order they start.
pub static ALL: &[&ControlLoop] =
    &[&NODES, &JOB, &CRON_JOB, &TTL, &GC, &POD_GC, &DISRUPTION, &POD_GROUP_PROTECTION, &NAMESPACE, &SCHEDULER];

/// The controllers, in the order they start.
pub fn controllers() -> impl Iterator<Item = &'static ControlLoop> {
    ALL.iter().copied().filter(|control_loop| control_loop.component == Component::Controllers)
}

/// The controller with this name.
pub fn controller(name: &str) -> Option<&'static ControlLoop> {
    controllers().find(|controller| controller.name == name)
}

/// Every kind that a control loop reads.
pub(crate) fn cached_kinds() -> BTreeSet<CachedKind> {
    ALL.iter().copied().flat_map(|control_loop| control_loop.reads).copied().collect()
}

/// The groups of a service account in kube-system, as which upstream runs each of its controllers.
const SERVICE_ACCOUNT: &[&str] = &["system:serviceaccounts", "system:serviceaccounts:kube-system"];

const EVENTS: Right = right(kinds::EVENT, "", &[Create, Patch]);

/// A right on objects of `kind`, or on this subresource of them.
const fn right(kind: &'static ApiResource, subresource: &'static str, verbs: &'static [Verb]) -> Right {
    Right { target: RightTarget::Kind(kind, subresource), verbs }
}

/// A right on a resource that our server does not have.
const fn right_on_named(group: &'static str, resource: &'static str, verbs: &'static [Verb]) -> Right {
    Right { target: RightTarget::Named(group, resource), verbs }
}

/// A right on every resource.
const fn right_on_all(verbs: &'static [Verb]) -> Right {
    Right { target: RightTarget::Any, verbs }
}

/// The simulated kubelets.
pub static NODES: ControlLoop = ControlLoop {
    name: "nodes",
    about: "Simulated nodes and the pods on them",
    component: Component::Nodes,
    user: "system:phalanx:nodes",
    groups: &["system:nodes"],
    reads: &[CachedKind::of::<NodeView>(), CachedKind::of::<PodView>()],
    roles: &[Role {
        name: "phalanx-nodes",
        rights: &[
            right(kinds::NODE, "", &[Create, Patch]),
            right(kinds::POD, "", &[Delete]),
            right(kinds::POD, "status", &[Patch]),
            EVENTS,
        ],
    }],
    start: start_nodes,
};

fn start_nodes(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = nodes::KubeletContext {
        client: process.client_of(this),
        pods: process.cache(this),
        nodes: process.cache(this),
        clock: process.clock.clone(),
        recorder: process.recorder(this, "kubelet"),
        config: process.config.nodes,
    };
    nodes::run(context)
}

/// The scheduler.
pub static SCHEDULER: ControlLoop = ControlLoop {
    name: "scheduler",
    about: "Places pods on nodes",
    component: Component::Scheduler,
    user: "system:kube-scheduler",
    groups: &[],
    reads: &[
        CachedKind::of::<NodeView>(),
        CachedKind::of::<PodGroupView>(),
        CachedKind::of::<CompositePodGroupView>(),
        CachedKind::of::<PodView>(),
    ],
    roles: &[Role {
        name: "phalanx-scheduler",
        rights: &[
            right(kinds::POD, "", &[Get, Delete]),
            right(kinds::POD, "binding", &[Create]),
            right(kinds::POD, "status", &[Patch]),
            right(kinds::POD_GROUP, "status", &[Patch]),
            EVENTS,
        ],
    }],
    start: start_scheduler,
};

fn start_scheduler(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let name = process.config.scheduler.name().to_owned();
    let recorder = process.recorder(this, &name);
    let context = scheduler::SchedulerContext {
        client: process.client_of(this),
        pods: process.cache(this),
        nodes: process.cache(this),
        pod_groups: process.cache(this),
        composite_pod_groups: process.cache(this),
        clock: process.clock.clone(),
        recorder,
        config: scheduler_config(process),
        handle: process.scheduler.clone(),
        metrics: process.config.metrics.scheduler.clone(),
        monitor: process.bind_monitor.clone(),
    };
    scheduler::run(context)
}

fn scheduler_config(process: &Process) -> scheduler::Config {
    let mut config = process.config.scheduler.clone();
    config.by_groups &= process.config.gates.enabled(Gate::GenericWorkload);
    // A pod of a gang that is released must be created again and must not count as a failure. Another Job controller may
    // do neither. If ours runs in another process, the groups that it created show it.
    config.core.release_only_ours = !process.config.runs(&JOB);
    config
}

/// The Job controller.
pub static JOB: ControlLoop = ControlLoop {
    name: "job",
    about: "Workloads, PodGroups and pods of Jobs",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:job-controller",
    groups: SERVICE_ACCOUNT,
    reads: &[
        CachedKind::of::<NamespaceView>(),
        CachedKind::of::<PodGroupView>(),
        CachedKind::of::<WorkloadView>(),
        CachedKind::of::<JobView>(),
        CachedKind::of::<PodView>(),
    ],
    roles: &[
        Role {
            name: "phalanx-controllers",
            rights: &[
                right(kinds::JOB, "", &[Get]),
                right(kinds::JOB, "status", &[Patch]),
                // The admission plugin OwnerReferencesPermissionEnforcement checks `update` on the finalizers of an owner
                // with `blockOwnerDeletion`.
                right(kinds::JOB, "finalizers", &[Update]),
                right(kinds::POD, "", &[Create, Patch, Delete]),
                right(kinds::WORKLOAD, "", &[Get, Create, Patch, Delete]),
                right(kinds::WORKLOAD, "finalizers", &[Update]),
                right(kinds::POD_GROUP, "", &[Get, Create, Patch, Delete]),
                right(kinds::POD_GROUP, "finalizers", &[Update]),
                right(kinds::COMPOSITE_POD_GROUP, "", &[Get]),
                EVENTS,
            ],
        },
        // Examples of kinds between Jobs and the root owner, which a cluster replaces by its own.
        Role {
            name: "phalanx-owners",
            rights: &[
                right_on_named("jobset.x-k8s.io", "jobsets", &[Get]),
                right_on_named("trainer.kubeflow.org", "trainjobs", &[Get]),
            ],
        },
    ],
    start: start_job,
};

fn start_job(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::job::JobContext {
        recorder: process.recorder(this, "job-controller"),
        client: process.client_of(this),
        jobs: process.cache(this),
        pods: process.cache(this),
        workloads: process.cache(this),
        pod_groups: process.cache(this),
        namespaces: process.cache(this),
        clock: process.clock.clone(),
        capabilities: process.capabilities.clone(),
        config: process.config.job.clone(),
        gates: process.config.gates,
        metrics: process.controller_metrics(),
    };
    controllers::job::run(context)
}

/// The CronJob controller.
pub static CRON_JOB: ControlLoop = ControlLoop {
    name: "cronjob",
    about: "Jobs at the times of CronJobs",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:cronjob-controller",
    groups: SERVICE_ACCOUNT,
    reads: &[CachedKind::of::<CronJobView>(), CachedKind::of::<JobView>()],
    roles: &[Role {
        name: "phalanx-cronjobs",
        rights: &[
            right(kinds::CRON_JOB, "status", &[Patch]),
            right(kinds::CRON_JOB, "finalizers", &[Update]),
            right(kinds::JOB, "", &[Get, Create, Delete]),
            EVENTS,
        ],
    }],
    start: start_cron_job,
};

fn start_cron_job(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::cronjob::CronJobContext {
        recorder: process.recorder(this, "cronjob-controller"),
        client: process.client_of(this),
        cron_jobs: process.cache(this),
        jobs: process.cache(this),
        clock: process.clock.clone(),
        config: controllers::cronjob::Config::default(),
        metrics: process.controller_metrics(),
    };
    controllers::cronjob::run(context)
}

/// The controller of `ttlSecondsAfterFinished`.
pub static TTL: ControlLoop = ControlLoop {
    name: "ttl",
    about: "Deletes Jobs some time after their end",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:ttl-after-finished-controller",
    groups: SERVICE_ACCOUNT,
    reads: &[CachedKind::of::<JobView>()],
    roles: &[Role { name: "phalanx-ttl", rights: &[right(kinds::JOB, "", &[Get, Delete])] }],
    start: start_ttl,
};

fn start_ttl(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::ttl::TtlContext {
        client: process.client_of(this),
        jobs: process.cache(this),
        clock: process.clock.clone(),
        metrics: process.controller_metrics(),
    };
    controllers::ttl::run(context)
}

macro_rules! cached_kinds_of {
    ($($view:ident),*) => { &[$(CachedKind::of::<api::views::$view>()),*] };
}

/// The garbage collector. It collects objects of every kind that has a view.
pub static GC: ControlLoop = ControlLoop {
    name: "gc",
    about: "Deletes objects without their owners",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:generic-garbage-collector",
    groups: SERVICE_ACCOUNT,
    reads: api::with_every_view!(cached_kinds_of),
    // Dependents and owners can be of any kind that is served.
    roles: &[Role { name: "phalanx-gc", rights: &[right_on_all(&[Get, Patch, Delete])] }],
    start: start_gc,
};

fn start_gc(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let served =
        controllers::gc::ReadableKinds { capabilities: process.capabilities.clone(), gates: process.config.gates };
    let mut context = controllers::gc::GcContext::new(process.client_of(this), served, process.controller_metrics());
    macro_rules! add_caches {
        ($($view:ident),*) => {
            $(context = context.with_cache(&process.cache::<api::views::$view>(this));)*
        };
    }
    api::with_every_view!(add_caches);
    controllers::gc::run(context)
}

/// The pod garbage collector.
pub static POD_GC: ControlLoop = ControlLoop {
    name: "podgc",
    about: "Deletes pods that no other controller deletes",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:pod-garbage-collector",
    groups: SERVICE_ACCOUNT,
    reads: &[CachedKind::of::<NodeView>(), CachedKind::of::<PodView>()],
    roles: &[Role {
        name: "phalanx-podgc",
        rights: &[
            right(kinds::NODE, "", &[Get]),
            right(kinds::POD, "", &[Delete]),
            right(kinds::POD, "status", &[Patch]),
        ],
    }],
    start: start_pod_gc,
};

fn start_pod_gc(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::podgc::PodGcContext {
        client: process.client_of(this),
        pods: process.cache(this),
        nodes: process.cache(this),
        clock: process.clock.clone(),
        config: process.config.pod_gc.clone(),
        metrics: process.controller_metrics(),
    };
    controllers::podgc::run(context)
}

/// The controller of PodDisruptionBudgets.
pub static DISRUPTION: ControlLoop = ControlLoop {
    name: "disruption",
    about: "Status of PodDisruptionBudgets",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:disruption-controller",
    groups: SERVICE_ACCOUNT,
    reads: &[CachedKind::of::<PodDisruptionBudgetView>(), CachedKind::of::<PodView>()],
    roles: &[Role {
        name: "phalanx-budgets",
        rights: &[right(kinds::POD_DISRUPTION_BUDGET, "status", &[Patch]), EVENTS],
    }],
    start: start_disruption,
};

fn start_disruption(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::disruption::DisruptionContext {
        // The component that kube-controller-manager's disruption controller names.
        recorder: process.recorder(this, "controllermanager"),
        client: process.client_of(this),
        budgets: process.cache(this),
        pods: process.cache(this),
        clock: process.clock.clone(),
        metrics: process.controller_metrics(),
    };
    controllers::disruption::run(context)
}

/// The controller that keeps PodGroups in use.
// Upstream: without gate GenericWorkload this controller is absent, and groups created before cannot be deleted.
pub static POD_GROUP_PROTECTION: ControlLoop = ControlLoop {
    name: "podgroup-protection",
    about: "Keeps PodGroups while live pods name them",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:podgroup-protection-controller",
    groups: SERVICE_ACCOUNT,
    reads: &[CachedKind::of::<PodGroupView>(), CachedKind::of::<CompositePodGroupView>(), CachedKind::of::<PodView>()],
    roles: &[Role {
        name: "phalanx-podgroup-protection",
        rights: &[right(kinds::POD_GROUP, "", &[Patch]), right(kinds::COMPOSITE_POD_GROUP, "", &[Patch])],
    }],
    start: start_pod_group_protection,
};

fn start_pod_group_protection(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::podgroup_protection::PodGroupProtectionContext {
        client: process.client_of(this),
        composite_pod_groups: process.cache(this),
        pod_groups: process.cache(this),
        pods: process.cache(this),
        metrics: process.controller_metrics(),
    };
    controllers::podgroup_protection::run(context)
}

/// The namespace controller. It deletes objects of every namespaced kind that the server has.
pub static NAMESPACE: ControlLoop = ControlLoop {
    name: "namespace",
    about: "Empties deleted namespaces",
    component: Component::Controllers,
    user: "system:serviceaccount:kube-system:namespace-controller",
    groups: SERVICE_ACCOUNT,
    reads: &[CachedKind::of::<NamespaceView>()],
    roles: &[Role {
        name: "phalanx-namespace",
        rights: &[
            right(kinds::NAMESPACE, "", &[Get]),
            right(kinds::NAMESPACE, "status", &[Patch]),
            right(kinds::NAMESPACE, "finalize", &[Update]),
            right_on_all(&[List, Delete, DeleteCollection]),
        ],
    }],
    start: start_namespace,
};

fn start_namespace(process: &mut Process, this: &'static ControlLoop) -> BoxFuture<'static, ()> {
    let context = controllers::namespace::NamespaceContext {
        client: process.client_of(this),
        namespaces: process.cache(this),
        clock: process.clock.clone(),
        config: controllers::namespace::Config::default(),
        metrics: process.controller_metrics(),
    };
    controllers::namespace::run(context)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_control_loop_has_its_own_name_and_user() {
        let names: BTreeSet<&str> = ALL.iter().map(|control_loop| control_loop.name).collect();
        let users: BTreeSet<&str> = ALL.iter().map(|control_loop| control_loop.user).collect();
        assert_eq!((names.len(), users.len()), (ALL.len(), ALL.len()));
    }

    #[test]
    fn every_control_loop_has_its_own_role_with_all_that_it_needs() {
        let roles: BTreeSet<&str> = ALL.iter().map(|control_loop| control_loop.main_role()).collect();
        assert_eq!(roles.len(), ALL.len());
        for control_loop in ALL {
            let elects = control_loop.component != Component::Nodes;
            for verb in [Get, Create, Update] {
                let granted = control_loop.rights().any(|(role, right)| {
                    role == control_loop.main_role() && right.allows(verb, kinds::LEASE.group, kinds::LEASE.plural)
                });
                assert_eq!(granted, elects, "{} {verb:?}", control_loop.name);
            }
        }
    }

    #[test]
    fn declared_rights_cover_caches_and_writes_and_no_more() {
        use apiserver::request::Verb::Watch;
        for (verb, group, resource, want) in [
            (Watch, "", "pods", true),
            (Create, "", "pods/binding", true),
            (Create, "", "pods", false),
            (Patch, "", "pods", false),
            (Get, "", "secrets", false),
        ] {
            assert_eq!(SCHEDULER.declares(verb, group, resource), want, "{verb:?} {group} {resource}");
        }
        assert!(NAMESPACE.declares(Delete, "batch", "jobs"));
        assert!(!NAMESPACE.declares(Create, "batch", "jobs"));
    }
}
