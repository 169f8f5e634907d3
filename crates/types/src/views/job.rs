//! Jobs as the Job controller and the progress view read them.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobSchedulingConfiguration, PodFailurePolicy, SuccessPolicy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::meta::{Condition, Index, MetaView, tight};
use crate::kinds;
use crate::small_map::SmallMap;
use crate::views::view;

/// A Job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct JobView {
    /// Metadata.
    pub metadata: MetaView,
    /// What was asked for.
    pub spec: JobSpecView,
    /// What was counted.
    pub status: JobStatusView,
}

view!(JobView, kinds::JOB, strip: JobView::strip_finished);

impl JobView {
    /// Jobs by the uid of the owner that manages them.
    pub const BY_CONTROLLER: Index<JobView> = Index {
        name: "controller",
        values: |job| job.metadata.controller().map(|owner| owner.uid.clone()).into_iter().collect(),
    };

    /// Jobs by `namespace/name` of the Workload that they name themselves.
    pub const BY_WORKLOAD_REF: Index<JobView> = Index {
        name: "workload-ref",
        values: |job| {
            let namespace = &job.metadata.namespace;
            job.spec.workload_ref.iter().map(|workload| format!("{namespace}/{}", workload.name)).collect()
        },
    };

    /// Jobs by `namespace/name` of the PodGroup that their pod template names.
    pub const BY_TEMPLATE_GROUP: Index<JobView> = Index {
        name: "template-group",
        values: |job| {
            let namespace = &job.metadata.namespace;
            job.spec.template.scheduling_group.iter().map(|group| format!("{namespace}/{group}")).collect()
        },
    };

    /// Jobs by one label that their pods must carry, as [`PodView::BY_LOOSE_LABEL`](super::PodView::BY_LOOSE_LABEL)
    /// writes it; a Job whose selector demands no certain value stands under its namespace and `/`.
    pub const BY_SELECTOR: Index<JobView> = Index {
        name: "selector",
        values: |job| {
            let namespace = &job.metadata.namespace;
            let handle = |selector: &LabelSelector| {
                let label = selector.match_labels.iter().flatten().next();
                label.map_or(format!("{namespace}/"), |(key, value)| format!("{namespace}/{key}={value}"))
            };
            job.spec.selector.iter().map(handle).collect()
        },
    };

    /// The condition that says how and when the Job reached its end; none while it has not.
    pub fn finished_condition(&self) -> Option<&Condition> {
        let is_end = |condition: &&Condition| matches!(condition.kind.as_str(), "Complete" | "Failed");
        self.status.conditions.iter().filter(is_end).find(|condition| condition.status == "True")
    }

    /// A Job that has ended makes no more pods, takes on none, and judges none.
    fn strip_finished(&mut self) {
        if self.finished_condition().is_none() {
            return;
        }
        self.spec.template = PodTemplateView::default();
        self.spec.selector = None;
        self.spec.scheduling = None;
        self.spec.pod_failure_policy = None;
        self.spec.success_policy = None;
    }
}

/// `job.spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpecView {
    /// Most pods at a time.
    pub parallelism: Option<i32>,
    /// How many must succeed; unset: one success ends it.
    pub completions: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<String>,
    /// How many failures are too many.
    pub backoff_limit: Option<i32>,
    /// No pods while set.
    pub suspend: Option<bool>,
    /// Seconds the Job may be active.
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end when the Job may be deleted; unset: never.
    pub ttl_seconds_after_finished: Option<i32>,
    /// Which pods are its own.
    pub selector: Option<LabelSelector>,
    /// Another controller's name: then it is not ours.
    pub managed_by: Option<String>,
    /// `Failed` or `TerminatingOrFailed`.
    pub pod_replacement_policy: Option<String>,
    /// Rules that ignore or sharpen failures.
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Rules that end the Job early.
    pub success_policy: Option<SuccessPolicy>,
    /// How many failures of one index are too many.
    pub backoff_limit_per_index: Option<i32>,
    /// How many failed indexes are too many; only with `backoff_limit_per_index`.
    pub max_failed_indexes: Option<i32>,
    /// Gang, topology, disruption, claims.
    pub scheduling: Option<JobSchedulingConfiguration>,
    /// The Workload whose group the pods join; counts only while its gate is on.
    pub workload_ref: Option<WorkloadRefView>,
    /// The pod template.
    pub template: PodTemplateView,
}

/// `job.spec.workloadRef`: a Workload of the Job's own namespace, which is all that validation lets through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkloadRefView {
    /// The Workload's name.
    pub name: String,
    /// Its uid, where the Job wants that one and no other; empty otherwise.
    pub uid: String,
}

/// The pod template: a few fields decoded, the whole kept as text until a pod is made from it.
#[derive(Clone, Debug, Default)]
pub struct PodTemplateView {
    /// The template's JSON.
    pub raw: Option<Box<RawValue>>,
    /// Labels of the pods.
    pub labels: SmallMap<String>,
    /// Set by a user or parent who brings the PodGroup along.
    pub scheduling_group: Option<String>,
    /// Copied to the Workload's templates.
    pub priority_class_name: Option<String>,
    /// `OnFailure` or `Never`.
    pub restart_policy: String,
}

impl<'de> Deserialize<'de> for PodTemplateView {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct TemplatePeek {
            metadata: TemplateMetaPeek,
            spec: TemplateSpecPeek,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct TemplateMetaPeek {
            labels: SmallMap<String>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct TemplateSpecPeek {
            scheduling_group: Option<super::pod::SchedulingGroupView>,
            priority_class_name: Option<String>,
            restart_policy: String,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let peek: TemplatePeek = serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(PodTemplateView {
            raw: Some(raw),
            labels: peek.metadata.labels,
            scheduling_group: peek.spec.scheduling_group.map(|group| group.pod_group_name.unwrap_or_default()),
            priority_class_name: peek.spec.priority_class_name.filter(|name| !name.is_empty()),
            restart_policy: peek.spec.restart_policy,
        })
    }
}

/// `job.status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatusView {
    /// Complete, Failed, Suspended and others.
    #[serde(deserialize_with = "tight")]
    pub conditions: Vec<Condition>,
    /// When the controller first worked on it (again, after a resume).
    pub start_time: Option<Timestamp>,
    /// When it completed.
    pub completion_time: Option<Timestamp>,
    /// Pods that are neither finished nor being deleted.
    pub active: i32,
    /// Active pods that are ready.
    pub ready: Option<i32>,
    /// Pods being deleted that have not ended.
    pub terminating: Option<i32>,
    /// Pods (or indexes) that succeeded.
    pub succeeded: i32,
    /// Pods that failed.
    pub failed: i32,
    /// Indexes that succeeded, as `0-3,5`.
    pub completed_indexes: String,
    /// Indexes that failed, in the same form; unset unless the Job gives up indexes one by one.
    pub failed_indexes: Option<String>,
    /// Finished pods that still hold the tracking finalizer.
    pub uncounted_terminated_pods: Option<UncountedPodsView>,
}

/// Uids of finished pods on their way into the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UncountedPodsView {
    /// Succeeded, not yet counted.
    pub succeeded: Vec<String>,
    /// Failed, not yet counted.
    pub failed: Vec<String>,
}
