//! The mapping of a Job to an item of the workload builder. Validation, the Job
//! controller and `phalanx compile` all use it, so that they agree.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSchedulingConfiguration};
use workloadbuilder::field::Path;
use workloadbuilder::{
    Blocks, DisruptionModeKind, PodGroupBlocks, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem, names,
};

use crate::gates::{AutoGang, Gate, Gates};
use crate::views::{JobView, OwnerRef};

/// The policies that a Job supports.
pub const JOB_POLICIES: [PolicyKind; 2] = [PolicyKind::Basic, PolicyKind::Gang];
/// The disruption modes that a Job supports.
pub const JOB_DISRUPTION_MODES: [DisruptionModeKind; 2] = [DisruptionModeKind::Single, DisruptionModeKind::All];

/// Label of a Namespace or a Job for whether Jobs get groups: `enabled` or `disabled`.
pub const GROUPS_LABEL: &str = "phalanx.dev/groups";

/// The fields of a Job that determine how its pods are scheduled, from a typed Job or a view.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobIntent<'a> {
    /// Name of the Job.
    pub name: &'a str,
    /// Maximum number of pods at a time.
    pub parallelism: Option<i32>,
    /// How many pods must succeed.
    pub completions: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<&'a str>,
    /// The user's `spec.scheduling`.
    pub scheduling: Option<&'a JobSchedulingConfiguration>,
    /// Priority class of the pods.
    pub priority_class_name: Option<&'a str>,
    /// Whether the pod template names a PodGroup of another controller.
    pub names_pod_group: bool,
    /// Whether the Job is a gang if it has no policy; set by [`JobIntent::with_gates`].
    pub auto_gang: bool,
}

impl JobIntent<'_> {
    /// The same intent with `auto_gang` set according to `gates`.
    #[must_use]
    pub fn with_gates(self, gates: &Gates) -> Self {
        JobIntent { auto_gang: self.is_auto_gang(gates), ..self }
    }

    /// Whether `autoGang: indexed` makes the Job a gang (KEP-5547, alpha): all its indexes run at once, there is more
    /// than one, and the Job neither sets Basic nor names a group. The Job controller, which creates the gang, and
    /// validation, which makes `parallelism` immutable, both use this rule.
    pub fn is_auto_gang(&self, gates: &Gates) -> bool {
        let policy = self.scheduling.and_then(|scheduling| scheduling.scheduling_policy.as_ref());
        let parallelism = self.parallelism.unwrap_or(1);
        gates.auto_gang == AutoGang::Indexed
            && gates.enabled(Gate::WorkloadWithJob)
            && self.completion_mode == Some("Indexed")
            && parallelism > 1
            && self.completions == Some(parallelism)
            && policy.is_none_or(|policy| policy.basic.is_none())
            && !self.names_pod_group
    }

    /// Whether the Job needs a Workload and a PodGroup. By default every Job does. Under `autoGang: indexed` only a Job
    /// that is a gang or has `spec.scheduling`.
    pub fn needs_scheduling_objects(&self, gates: &Gates) -> bool {
        gates.auto_gang == AutoGang::Explicit || self.scheduling.is_some() || self.is_auto_gang(gates)
    }
}

/// Whether the Job itself excludes its own scheduling objects: its label opts out, it has a controller other than a
/// CronJob, it names a Workload, or its pod template names a PodGroup. Settings, the namespace and Workloads of users
/// can exclude them too.
pub fn has_no_own_scheduling_objects(job: &JobView, gates: &Gates) -> bool {
    let opts_out = job.metadata.labels.get(GROUPS_LABEL).is_some_and(|value| value == "disabled");
    let is_cron_job = |owner: &OwnerRef| owner.kind == "CronJob" && owner.api_version.starts_with("batch/");
    let is_child = job.metadata.controller().is_some_and(|owner| !is_cron_job(owner));
    let names_workload = gates.enabled(Gate::JobWorkloadRef) && job.spec.workload_ref.is_some();
    opts_out || is_child || names_workload || job.spec.template.scheduling_group.is_some()
}

impl<'a> From<&'a JobView> for JobIntent<'a> {
    fn from(job: &'a JobView) -> Self {
        JobIntent {
            name: &job.metadata.name,
            parallelism: job.spec.parallelism,
            completions: job.spec.completions,
            completion_mode: job.spec.completion_mode.as_deref(),
            scheduling: job.spec.scheduling.as_ref(),
            priority_class_name: job.spec.template.priority_class_name.as_deref(),
            names_pod_group: job.spec.template.scheduling_group.is_some(),
            auto_gang: false,
        }
    }
}

impl<'a> From<&'a Job> for JobIntent<'a> {
    fn from(job: &'a Job) -> Self {
        let spec = job.spec.as_ref();
        let pod = spec.and_then(|spec| spec.template.spec.as_ref());
        JobIntent {
            name: job.metadata.name.as_deref().unwrap_or_default(),
            parallelism: spec.and_then(|spec| spec.parallelism),
            completions: spec.and_then(|spec| spec.completions),
            completion_mode: spec.and_then(|spec| spec.completion_mode.as_deref()),
            scheduling: spec.and_then(|spec| spec.scheduling.as_ref()),
            priority_class_name: pod.and_then(|pod| pod.priority_class_name.as_deref()),
            names_pod_group: pod.is_some_and(|pod| pod.scheduling_group.is_some()),
            auto_gang: false,
        }
    }
}

/// The Job as one leaf. It is Basic unless the user or the setting `autoGang` requests a gang. The default size of a
/// gang is the parallelism.
pub fn item_for_job(intent: JobIntent<'_>) -> WorkloadItem {
    // A suspended Job may have parallelism 0, but a gang needs at least one pod (KEP-5547, Defaulting Rules). The value
    // is not written back to the Job, so it follows a later change of parallelism.
    let min_count = intent.parallelism.unwrap_or(1).max(1);
    let policy = if intent.auto_gang { SchedulingPolicy::Gang { min_count: None } } else { SchedulingPolicy::Basic };
    WorkloadItem {
        default_config: SchedulingConfig {
            policy: Some(policy),
            // A group must have the priority of its pods, or the scheduler refuses them all.
            priority_class_name: intent.priority_class_name.filter(|name| !name.is_empty()).map(str::to_owned),
            ..SchedulingConfig::default()
        },
        input: job_blocks(intent.scheduling),
        callbacks: vec![Arc::new(move |config| config.default_min_count(min_count))],
        ..WorkloadItem::new(names::template_name(intent.name, 0), Path::new("spec").child("scheduling"))
    }
}

/// The user's blocks for a Job's pods.
pub fn job_blocks(scheduling: Option<&JobSchedulingConfiguration>) -> Blocks {
    scheduling.map_or(Blocks::Absent, |scheduling| {
        Blocks::PodGroup(PodGroupBlocks {
            policy: scheduling.scheduling_policy.clone(),
            constraints: scheduling.scheduling_constraints.clone(),
            disruption_mode: scheduling.disruption_mode.clone(),
            resource_claims: scheduling.resource_claims.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::{Value, json};
    use workloadbuilder::{BuildOptions, Builder, DisruptionMode, SchedulingPolicy, names};

    use super::{JOB_DISRUPTION_MODES, JOB_POLICIES, JobIntent, item_for_job};
    use crate::gates::{AutoGang, Gate, Gates};
    use crate::scheduling::validation::{pod_group, workload};
    use crate::views::{JobView, View};

    fn job(spec: Value) -> Value {
        json!({"metadata": {"name": "trainer"}, "spec": spec})
    }

    // Shows: S000-53
    // Shows: S000-71
    // Shows: S004-12
    // Shows: U-TestWorkloadItemForJob, U-TestWorkloadItemForJobMinCountDefaulting
    #[test]
    fn job_is_basic_unless_it_requests_a_gang() {
        let gang = |min_count| Some(SchedulingPolicy::Gang { min_count: Some(min_count) });
        for (case, spec, want) in [
            ("no block", json!({"parallelism": 4}), Some(SchedulingPolicy::Basic)),
            ("empty block", json!({"parallelism": 4, "scheduling": {}}), Some(SchedulingPolicy::Basic)),
            ("gang", json!({"parallelism": 4, "scheduling": {"schedulingPolicy": {"gang": {}}}}), gang(4)),
            (
                "gang of some",
                json!({"parallelism": 4, "scheduling": {"schedulingPolicy": {"gang": {"minCount": 3}}}}),
                gang(3),
            ),
            ("no parallelism", json!({"scheduling": {"schedulingPolicy": {"gang": {}}}}), gang(1)),
            ("parallelism 0", json!({"parallelism": 0, "scheduling": {"schedulingPolicy": {"gang": {}}}}), gang(1)),
        ] {
            let typed: Job = serde_json::from_value(job(spec.clone())).expect("a Job");
            let view = JobView::decode(job(spec).to_string().as_bytes()).expect("a Job");
            assert_eq!(item_for_job(JobIntent::from(&typed)).resolve().policy, want, "{case}");
            assert_eq!(item_for_job(JobIntent::from(&view)).resolve().policy, want, "{case}, from the view");
        }
    }

    // Shows: S000-05
    // Shows: S002-14
    // Shows: S000-53
    #[test]
    fn auto_gang_applies_to_jobs_that_run_all_indexes_at_once() {
        let indexed = Gates::default().with_auto_gang(AutoGang::Indexed);
        let whole = json!({"parallelism": 8, "completions": 8, "completionMode": "Indexed"});
        let with = |field: &str, value: Value| {
            let mut spec = whole.clone();
            spec[field] = value;
            spec
        };
        let gang = |min_count| Some(SchedulingPolicy::Gang { min_count: Some(min_count) });
        let basic = Some(SchedulingPolicy::Basic);
        // The spec, its policy, and whether it gets scheduling objects.
        for (case, spec, policy, objects) in [
            ("all indexes at once", whole.clone(), gang(8), true),
            ("in waves", with("parallelism", json!(4)), basic.clone(), false),
            ("not indexed", with("completionMode", json!("NonIndexed")), basic.clone(), false),
            ("one pod", json!({"parallelism": 1, "completions": 1, "completionMode": "Indexed"}), basic.clone(), false),
            ("requests more", with("scheduling", json!({"disruptionMode": {"all": {}}})), gang(8), true),
            (
                "requests fewer",
                with("scheduling", json!({"schedulingPolicy": {"gang": {"minCount": 6}}})),
                gang(6),
                true,
            ),
            ("requests Basic", with("scheduling", json!({"schedulingPolicy": {"basic": {}}})), basic.clone(), true),
            (
                "names a group",
                with("template", json!({"spec": {"schedulingGroup": {"podGroupName": "g"}, "containers": []}})),
                basic.clone(),
                false,
            ),
        ] {
            let typed: Job = serde_json::from_value(job(spec.clone())).expect("a Job");
            let view = JobView::decode(job(spec).to_string().as_bytes()).expect("a Job");
            for (form, intent) in [("typed", JobIntent::from(&typed)), ("view", JobIntent::from(&view))] {
                let found = item_for_job(intent.with_gates(&indexed)).resolve().policy;
                assert_eq!(
                    (found, intent.needs_scheduling_objects(&indexed)),
                    (policy.clone(), objects),
                    "{case}, {form}"
                );
                assert!(
                    intent.needs_scheduling_objects(&Gates::default()) && !intent.is_auto_gang(&Gates::default()),
                    "{case}"
                );
                assert!(!intent.is_auto_gang(&indexed.with(Gate::WorkloadWithJob, false)), "{case}");
            }
        }
    }

    // Shows: U-TestWorkloadInput
    #[test]
    fn typed_job_and_view_give_the_same_item() {
        let document = job(json!({
            "parallelism": 4,
            "template": {"spec": {"containers": [], "priorityClassName": "high"}},
            "scheduling": {
                "schedulingConstraints": {"topology": [{"key": "rack"}]},
                "disruptionMode": {"all": {}},
                "resourceClaims": [{"name": "nic", "resourceClaimName": "shared"}],
            },
        }));
        let typed: Job = serde_json::from_value(document.clone()).expect("a Job");
        let view = JobView::decode(document.to_string().as_bytes()).expect("a Job");
        let item = item_for_job(JobIntent::from(&typed));
        let config = item.resolve();
        assert_eq!(config, item_for_job(JobIntent::from(&view)).resolve());
        assert_eq!(item.name, "trainer-pgt-0");
        assert_eq!(config.priority_class_name.as_deref(), Some("high"));
        assert_eq!(config.constraints.map(|constraints| constraints.topology), Some(vec!["rack".to_owned()]));
        assert_eq!(config.disruption_mode, Some(DisruptionMode::All));
        assert_eq!(config.resource_claims.len(), 1);
    }

    #[test]
    fn objects_of_every_valid_job_are_valid() {
        let scheduling = json!({
            "schedulingPolicy": {"gang": {}},
            "schedulingConstraints": {"topology": [{"key": "topology.kubernetes.io/rack"}]},
            "disruptionMode": {"all": {}},
            "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
        });
        for name in ["a".to_owned(), "trainer.v1.example".to_owned(), "a".repeat(58), "a.b-".repeat(63) + "c"] {
            let document = json!({
                "metadata": {"name": name, "namespace": "training", "uid": "0b5e"},
                "spec": {"parallelism": 4, "scheduling": scheduling},
            });
            let job = JobView::decode(document.to_string().as_bytes()).expect("a Job");
            let owner = OwnerReference {
                api_version: "batch/v1".to_owned(),
                kind: "Job".to_owned(),
                name: name.clone(),
                uid: "0b5e".to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            };
            let item = item_for_job(JobIntent::from(&job));
            let template = item.name.clone();
            let options = BuildOptions {
                name: names::workload_name(&name, "0b5e"),
                namespace: "training".to_owned(),
                owner: Some(owner),
                ..BuildOptions::default()
            };
            let workload_name = options.name.clone();
            let builder = Builder::new(item, options);
            let workload = builder.build_workload().expect("a Workload");
            let group = builder.build_pod_group(&names::pod_group_name(&workload_name, &template), &template);
            let gates = Gates::default();
            assert_eq!(workload::validate_create(&workload, &gates), vec![], "{name}");
            assert_eq!(pod_group::validate_create(&group.expect("a PodGroup"), &gates), vec![], "{name}");
        }
    }

    // Shows: S004-43
    #[test]
    fn unknown_policy_is_refused_for_a_job() {
        let typed: Job = serde_json::from_value(job(json!({}))).expect("a Job");
        let mut item = item_for_job(JobIntent::from(&typed));
        item.callbacks.push(Arc::new(|config| config.policy = Some(SchedulingPolicy::Other("Elastic"))));
        let options = BuildOptions {
            allowed_policies: JOB_POLICIES.to_vec(),
            allowed_disruption_modes: JOB_DISRUPTION_MODES.to_vec(),
            ..BuildOptions::default()
        };
        let errors: Vec<String> =
            Builder::new(item, options).validate_resolved().iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            ["spec.scheduling.schedulingPolicy: Forbidden: the Elastic scheduling policy is not allowed"]
        );
    }
}
