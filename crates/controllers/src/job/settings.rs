//! Settings for the scheduling objects of Jobs: in the configuration for all of them, by a label for a namespace or for
//! one Job.

use api::batch::scheduling::JobIntent;
use api::gates::Gates;
use api::views::{JobView, MetaView, OwnerRef};

use super::Config;

pub use api::batch::scheduling::GROUPS_LABEL;

/// What Jobs without `spec.scheduling` get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainJobs {
    /// A Workload and a PodGroup with the Basic policy.
    #[default]
    Basic,
    /// No objects.
    None,
}

impl PlainJobs {
    /// Parses the value in a configuration file.
    pub fn parse(text: &str) -> Option<PlainJobs> {
        match text {
            "basic" => Some(PlainJobs::Basic),
            "none" => Some(PlainJobs::None),
            _ => None,
        }
    }
}

/// What happens to the objects of a suspended Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSuspend {
    /// They stay, and the resumed Job uses them again.
    #[default]
    Keep,
    /// They are deleted once no pod runs any more; the resumed Job gets new ones.
    Delete,
}

impl OnSuspend {
    /// Parses the value in a configuration file.
    pub fn parse(text: &str) -> Option<OnSuspend> {
        match text {
            "keep" => Some(OnSuspend::Keep),
            "delete" => Some(OnSuspend::Delete),
            _ => None,
        }
    }
}

/// Kinds whose Jobs are children: the parent manages their scheduling objects. All other Jobs are roots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOwners(pub Vec<String>);

impl ChildOwners {
    /// Every kind.
    pub const ALL: &str = "*";

    /// Whether a Job with this controlling owner is a child. A CronJob is never a parent: it does not manage the
    /// objects of its Jobs (S000-13, S004-22).
    // Upstream: any controlling owner counts as a parent, and so a CronJob's Jobs get no objects.
    pub fn include(&self, owner: &OwnerRef) -> bool {
        !is_cron_job(owner) && self.0.iter().any(|kind| *kind == owner.kind || kind == ChildOwners::ALL)
    }
}

/// Whether the owner is a CronJob, which is never a parent.
pub(super) fn is_cron_job(owner: &OwnerRef) -> bool {
    owner.kind == "CronJob" && owner.api_version.starts_with("batch/")
}

impl Default for ChildOwners {
    fn default() -> ChildOwners {
        ChildOwners(vec![ChildOwners::ALL.to_owned()])
    }
}

/// The value of the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupsLabel {
    /// Jobs get objects, whatever the configuration is.
    Enabled,
    /// Jobs without `spec.scheduling` get none.
    Disabled,
}

impl GroupsLabel {
    /// Parses the label; other values are ignored.
    pub fn of(meta: &MetaView) -> Option<GroupsLabel> {
        match meta.labels.get(GROUPS_LABEL)?.as_str() {
            "enabled" => Some(GroupsLabel::Enabled),
            "disabled" => Some(GroupsLabel::Disabled),
            _ => None,
        }
    }
}

/// Whether a root Job gets a Workload and a PodGroup. The Job has precedence over its namespace, and the namespace over the
/// configuration.
pub fn wants_objects(job: &JobView, namespace: Option<GroupsLabel>, gates: &Gates, config: &Config) -> bool {
    let intent = JobIntent::from(job);
    if intent.scheduling.is_some() {
        return true;
    }
    match GroupsLabel::of(&job.metadata).or(namespace) {
        Some(label) => label == GroupsLabel::Enabled,
        None if config.plain_jobs == PlainJobs::None => intent.is_auto_gang(gates),
        None => intent.needs_scheduling_objects(gates),
    }
}
