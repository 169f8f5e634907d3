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
    /// Desired state.
    pub spec: JobSpecView,
    /// Observed state.
    pub status: JobStatusView,
}

view!(
    JobView,
    kinds::JOB,
    indexes: [JobView::BY_CONTROLLER, JobView::BY_WORKLOAD_REF, JobView::BY_TEMPLATE_GROUP, JobView::BY_SELECTOR],
    strip: JobView::strip_finished
);

impl JobView {
    /// Jobs by the uid of their controller.
    pub const BY_CONTROLLER: Index<JobView> = Index {
        name: "controller",
        values: |job| job.metadata.controller().map(|owner| owner.uid.clone()).into_iter().collect(),
    };

    /// Jobs by `namespace/name` of the Workload in `spec.workloadRef`.
    pub const BY_WORKLOAD_REF: Index<JobView> = Index {
        name: "workload-ref",
        values: |job| {
            let namespace = &job.metadata.namespace;
            job.spec.workload_ref.iter().map(|workload| format!("{namespace}/{}", workload.name)).collect()
        },
    };

    /// Jobs by `namespace/name` of the PodGroup in their pod template.
    pub const BY_TEMPLATE_GROUP: Index<JobView> = Index {
        name: "template-group",
        values: |job| {
            let namespace = &job.metadata.namespace;
            job.spec.template.scheduling_group.iter().map(|group| format!("{namespace}/{group}")).collect()
        },
    };

    /// Jobs by one label of their selector, in the format of
    /// [`PodView::BY_ORPHAN_LABEL`](super::PodView::BY_ORPHAN_LABEL). A Job whose selector requires no fixed value is
    /// listed under its namespace and `/`.
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

    /// The condition Complete or Failed that is True; `None` while the Job has not finished.
    pub fn finished_condition(&self) -> Option<&Condition> {
        let is_end = |condition: &&Condition| matches!(condition.kind.as_str(), "Complete" | "Failed");
        self.status.conditions.iter().filter(is_end).find(|condition| condition.status == "True")
    }

    /// Drops fields that are not read of a finished Job: it creates, adopts and counts no more pods.
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
    /// Maximum number of pods at a time.
    pub parallelism: Option<i32>,
    /// How many pods must succeed. If unset, one success completes the Job.
    pub completions: Option<i32>,
    /// `NonIndexed` or `Indexed`.
    pub completion_mode: Option<String>,
    /// Number of failures after which the Job fails.
    pub backoff_limit: Option<i32>,
    /// While true, the Job has no pods.
    pub suspend: Option<bool>,
    /// Seconds the Job may be active.
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end at which the Job is deleted. Unset means never.
    pub ttl_seconds_after_finished: Option<i32>,
    /// Selects the Job's pods.
    pub selector: Option<LabelSelector>,
    /// The controller that manages the Job, if it is not ours.
    pub managed_by: Option<String>,
    /// `Failed` or `TerminatingOrFailed`.
    pub pod_replacement_policy: Option<String>,
    /// Rules for the failures of pods.
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Rules that complete the Job early.
    pub success_policy: Option<SuccessPolicy>,
    /// Number of failures of one index after which the index fails.
    pub backoff_limit_per_index: Option<i32>,
    /// Number of failed indexes after which the Job fails. Used only with `backoff_limit_per_index`.
    pub max_failed_indexes: Option<i32>,
    /// Gang, topology, disruption, claims.
    pub scheduling: Option<JobSchedulingConfiguration>,
    /// The Workload whose group the pods join. Ignored while the gate `JobWorkloadRef` is off.
    pub workload_ref: Option<WorkloadRefView>,
    /// The pod template.
    pub template: PodTemplateView,
}

/// `job.spec.workloadRef`: a Workload in the Job's namespace. Validation refuses all other references.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WorkloadRefView {
    /// The Workload's name.
    pub name: String,
    /// The uid that the Workload must have; empty for any.
    pub uid: String,
}

/// The pod template. A few fields are decoded, and the rest stays JSON until a pod is created.
#[derive(Clone, Debug, Default)]
pub struct PodTemplateView {
    /// The template's JSON.
    pub raw: Option<Box<RawValue>>,
    /// Labels of the pods.
    pub labels: SmallMap<String>,
    /// Set by a user or parent that creates the PodGroup.
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
    /// When the controller first processed the Job, or first after the last resume.
    pub start_time: Option<Timestamp>,
    /// When it completed.
    pub completion_time: Option<Timestamp>,
    /// Pods that are neither finished nor being deleted.
    pub active: i32,
    /// Active pods that are ready.
    pub ready: Option<i32>,
    /// Pods that are being deleted and have not finished.
    pub terminating: Option<i32>,
    /// Pods (or indexes) that succeeded.
    pub succeeded: i32,
    /// Pods that failed.
    pub failed: i32,
    /// Indexes that succeeded, as `0-3,5`.
    pub completed_indexes: String,
    /// Indexes that failed, in the same format. Unset unless `backoff_limit_per_index` is set.
    pub failed_indexes: Option<String>,
    /// Finished pods that still have the tracking finalizer.
    pub uncounted_terminated_pods: Option<UncountedPodsView>,
}

/// Uids of finished pods that are not counted yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UncountedPodsView {
    /// Succeeded, not yet counted.
    pub succeeded: Vec<String>,
    /// Failed, not yet counted.
    pub failed: Vec<String>,
}
