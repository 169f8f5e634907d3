//! The one mapping of a Job to an item of the workload builder. Validation, the Job controller and `phalanx compile`
//! all use it, so they cannot differ about what a Job asks for.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSchedulingConfiguration};
use workloadbuilder::field::Path;
use workloadbuilder::{
    Blocks, DisruptionModeKind, PodGroupBlocks, PolicyKind, SchedulingConfig, SchedulingPolicy, WorkloadItem, names,
};

use crate::views::JobView;

/// The policies a Job may ask for.
pub const POLICIES: [PolicyKind; 2] = [PolicyKind::Basic, PolicyKind::Gang];
/// The disruption modes a Job may ask for.
pub const DISRUPTION_MODES: [DisruptionModeKind; 2] = [DisruptionModeKind::Single, DisruptionModeKind::All];

/// The fields of a Job that say how its pods are to be scheduled, from whichever form of the Job there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobIntent<'a> {
    /// Name of the Job.
    pub name: &'a str,
    /// Most pods at a time.
    pub parallelism: Option<i32>,
    /// What the user asked for.
    pub scheduling: Option<&'a JobSchedulingConfiguration>,
    /// Priority class of the pods.
    pub priority_class_name: Option<&'a str>,
}

impl<'a> From<&'a JobView> for JobIntent<'a> {
    fn from(job: &'a JobView) -> Self {
        JobIntent {
            name: &job.metadata.name,
            parallelism: job.spec.parallelism,
            scheduling: job.spec.scheduling.as_ref(),
            priority_class_name: job.spec.template.priority_class_name.as_deref(),
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
            scheduling: spec.and_then(|spec| spec.scheduling.as_ref()),
            priority_class_name: pod.and_then(|pod| pod.priority_class_name.as_deref()),
        }
    }
}

/// The Job as one leaf: Basic unless the user asks for a gang, which then has all the pods that run at a time.
pub fn item_for_job(intent: JobIntent<'_>) -> WorkloadItem {
    let input = intent.scheduling.map_or(Blocks::Absent, |scheduling| {
        Blocks::PodGroup(PodGroupBlocks {
            policy: scheduling.scheduling_policy.clone(),
            constraints: scheduling.scheduling_constraints.clone(),
            disruption_mode: scheduling.disruption_mode.clone(),
            resource_claims: scheduling.resource_claims.clone(),
        })
    });
    // A suspended Job may have parallelism 0, but a gang needs at least one pod (KEP-5547, Defaulting Rules). The value
    // is not written back to the Job, so a later change of parallelism still moves it.
    let min_count = intent.parallelism.unwrap_or(1).max(1);
    WorkloadItem {
        default_config: SchedulingConfig {
            policy: Some(SchedulingPolicy::Basic),
            // A group has to have the priority of its pods, or the scheduler refuses them all.
            priority_class_name: intent.priority_class_name.filter(|name| !name.is_empty()).map(str::to_owned),
            ..SchedulingConfig::default()
        },
        input,
        callbacks: vec![Arc::new(move |config| config.default_min_count(min_count))],
        ..WorkloadItem::new(names::template_name(intent.name, 0), Path::new("spec").child("scheduling"))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::batch::v1::Job;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
    use serde_json::{Value, json};
    use workloadbuilder::{BuildOptions, Builder, DisruptionMode, SchedulingPolicy, names};

    use super::{JobIntent, item_for_job};
    use crate::gates::Gates;
    use crate::scheduling::validation::{pod_group, workload};
    use crate::views::{JobView, View};

    fn job(spec: Value) -> Value {
        json!({"metadata": {"name": "trainer"}, "spec": spec})
    }

    #[test]
    fn a_job_is_basic_unless_it_asks_for_a_gang() {
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

    #[test]
    fn both_forms_of_a_job_give_the_same_item() {
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
    fn what_comes_of_any_legal_job_is_accepted_by_the_server() {
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
            let group = builder.pod_group(&names::pod_group_name(&workload_name, &template), &template);
            let gates = Gates::default();
            assert_eq!(workload::validate_create(&workload, &gates), vec![], "{name}");
            assert_eq!(pod_group::validate_create(&group.expect("a PodGroup"), &gates), vec![], "{name}");
        }
    }
}
