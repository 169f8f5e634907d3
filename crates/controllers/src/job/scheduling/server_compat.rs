//! Servers that lack kinds, or drop fields because a feature gate is off. A Job that loses its gang because of that reports
//! it (design: section 3b).
//!
//! Both are derived from the caches and not remembered, so a restart finds them again: after each create the controller
//! waits until the caches show the object, and decides the next step from what the server stored.

use std::sync::Arc;

use api::batch::scheduling::JobIntent;
use api::gates::{Gate, Gates};
use api::kinds;
use api::views::{Condition, PodGroupView, PodView, WorkloadView};
use k8s_openapi::api::scheduling::v1beta1::PodGroupTemplate;
use workloadbuilder::BuildError;

use super::objects::{Fallback, JoinedGroup, Scheduling, compile, is_ours};
use crate::job::job_params::is_active;
use crate::job::observe::JobSnapshot;

/// Reason of the condition and the Event if the server dropped fields.
const FIELDS_DROPPED: &str = "FieldsDropped";

/// Adapts to the server: a Job waits for kinds that the server does not serve or continues without them, and dropped fields
/// are reported.
pub fn adapt_to_server(
    scheduling: Scheduling,
    observed: &JobSnapshot,
    gates: &Gates,
) -> Result<Scheduling, BuildError> {
    match scheduling {
        Scheduling::NeedsWorkload(_) | Scheduling::NeedsPodGroup(_) if !observed.serves_groups => {
            Ok(without_groups(observed, gates))
        }
        Scheduling::Join(mut group) => {
            let dropped = dropped_fields(observed, &group, gates)?;
            group.fallback = (!dropped.is_empty()).then(|| {
                let message = format!("the API server dropped {}", dropped.join("; "));
                Fallback { reason: FIELDS_DROPPED, message }
            });
            Ok(Scheduling::Join(group))
        }
        other => Ok(other),
    }
}

/// A Job without `spec.scheduling` gets plain pods; one that requests a group waits for it.
fn without_groups(observed: &JobSnapshot, gates: &Gates) -> Scheduling {
    let intent = JobIntent::from(&*observed.job);
    if intent.scheduling.is_none() && !intent.is_auto_gang(gates) {
        return Scheduling::Plain(None);
    }
    let message = "the API server does not serve Workload and PodGroup in scheduling.k8s.io/v1beta1, which spec.scheduling \
                   needs: enable them (docs/guides/cluster.md), or recreate the Job without spec.scheduling";
    Scheduling::Blocked(Fallback { reason: "WorkloadsNotServed", message: message.to_owned() })
}

/// The fields of our objects that the server dropped, each with its remedy.
fn dropped_fields(observed: &JobSnapshot, joined: &JoinedGroup, gates: &Gates) -> Result<Vec<String>, BuildError> {
    let mut dropped = Vec::new();
    if let [workload] = &observed.workloads[..]
        && is_ours(&workload.metadata, &observed.job)
    {
        let sent = compile(&observed.job, gates)?.spec.pod_group_templates.unwrap_or_default();
        dropped.extend(dropped_from_workload(&sent, workload));
        dropped.extend(observed.pod_groups.iter().filter_map(|group| dropped_from_group(workload, group)));
    }
    let group = observed.pod_groups.iter().find(|found| found.metadata.name == joined.name);
    // Pods that are plain for another reason were reported with that reason.
    let is_other = |condition: &Condition| condition.kind == Fallback::CONDITION && condition.reason != FIELDS_DROPPED;
    if !observed.job.status.conditions.iter().any(is_other) {
        dropped.extend(group.and_then(|group| dropped_from_pods(group, &observed.pods, joined.owner.is_some())));
    }
    Ok(dropped)
}

/// A gated field of a template, and whether a template has it.
type TemplateField = (&'static str, fn(&PodGroupTemplate) -> bool);

const TEMPLATE: &str = "PodGroupTemplate";
const TOPOLOGY: &str = "schedulingConstraints.topology";
const TEMPLATE_FIELDS: [TemplateField; 4] = [
    (TOPOLOGY, has_topology),
    ("resourceClaims", has_claims),
    ("preemptionPolicy", |template| template.preemption_policy.is_some()),
    ("disruptionMode", |template| template.disruption_mode.is_some()),
];

/// Templates are compared by name. Only fields that were sent can have been dropped.
fn dropped_from_workload(sent: &[PodGroupTemplate], workload: &WorkloadView) -> Vec<String> {
    let stored = workload.spec.pod_group_templates.as_deref().unwrap_or_default();
    let object = format!("Workload {}", workload.metadata.name);
    let mut dropped = Vec::new();
    for sent in sent {
        let Some(stored) = stored.iter().find(|stored| stored.name == sent.name) else { continue };
        let fields = TEMPLATE_FIELDS.iter().filter(|(_, has)| has(sent) && !has(stored));
        dropped.extend(fields.map(|(field, _)| dropped_field_message(TEMPLATE, field, &object)));
    }
    dropped
}

/// A PodGroup is created from the stored Workload, and can still lose fields that the Workload did not.
fn dropped_from_group(workload: &WorkloadView, group: &PodGroupView) -> Option<String> {
    let template = group.spec.workload_ref.as_ref().map(|reference| &reference.template_name)?;
    let templates = workload.spec.pod_group_templates.as_deref().unwrap_or_default();
    let template = templates.iter().find(|stored| stored.name == *template)?;
    let dropped = has_topology(template) && group.topology_key().is_none();
    let object = format!("PodGroup {}", group.metadata.name);
    dropped.then(|| dropped_field_message(TEMPLATE, TOPOLOGY, &object))
}

/// Active pods that were sent as members of the group but are not in it. If members are sent with the group as an owner
/// (`owns_members`), they are recognized by it; otherwise each pod that is younger than the group counts as one.
fn dropped_from_pods(group: &PodGroupView, pods: &[Arc<PodView>], owns_members: bool) -> Option<String> {
    let is_younger = |pod: &PodView| pod.metadata.creation_timestamp >= group.metadata.creation_timestamp;
    let is_owned = |pod: &PodView| pod.metadata.owner_references.iter().any(|owner| owner.uid == group.metadata.uid);
    let was_sent = |pod: &PodView| if owns_members { is_owned(pod) } else { is_younger(pod) };
    let active: Vec<_> = pods.iter().filter(|pod| is_active(pod)).collect();
    let outside = active.iter().filter(|pod| pod.group_name().is_none() && was_sent(pod)).count();
    let object = format!("{outside} of {} pods, which are not in PodGroup {}", active.len(), group.metadata.name);
    (outside > 0).then(|| dropped_field_message(kinds::POD.kind, "spec.schedulingGroup", &object))
}

fn dropped_field_message(kind: &str, field: &str, object: &str) -> String {
    let gate = Gate::of_field(kind, field).expect("every field that is compared has a gate");
    format!("{field} from {object}: enable its feature gate {}", gate.name())
}

fn has_topology(template: &PodGroupTemplate) -> bool {
    let constraints = template.scheduling_constraints.as_ref().and_then(|constraints| constraints.topology.as_ref());
    constraints.is_some_and(|topology| !topology.is_empty())
}

fn has_claims(template: &PodGroupTemplate) -> bool {
    template.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use api::views::{OwnerRef, View};
    use serde_json::{Value, json};

    use super::*;

    fn template(more: Value) -> PodGroupTemplate {
        let mut document = json!({"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(document).unwrap()
    }

    fn workload(stored: &PodGroupTemplate) -> WorkloadView {
        let document = json!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [stored]}});
        WorkloadView::decode(document.to_string().as_bytes()).unwrap()
    }

    fn pod(group: Option<&str>, phase: &str, second: u32) -> Arc<PodView> {
        let document = json!({
            "metadata": {"name": "p", "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z")},
            "spec": {"schedulingGroup": group.map(|name| json!({"podGroupName": name}))},
            "status": {"phase": phase},
        });
        Arc::new(PodView::decode(document.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn a_dropped_field_is_reported_with_its_gate() {
        let topology = json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}});
        let claims = json!({"resourceClaims": [{"name": "c", "resourceClaimName": "x"}]});
        let nothing = json!({});
        for (case, sent, stored, want) in [
            ("no field", &nothing, &nothing, None),
            ("stored", &topology, &topology, None),
            (
                "topology",
                &topology,
                &nothing,
                Some(
                    "schedulingConstraints.topology from Workload w: enable its feature gate TopologyAwareWorkloadScheduling",
                ),
            ),
            (
                "claims",
                &claims,
                &nothing,
                Some("resourceClaims from Workload w: enable its feature gate DRAWorkloadResourceClaims"),
            ),
            (
                "policy",
                &json!({"preemptionPolicy": "Never"}),
                &nothing,
                Some("preemptionPolicy from Workload w: enable its feature gate PodGroupPreemptionPolicy"),
            ),
            (
                "disruption mode",
                &json!({"disruptionMode": {"all": {}}}),
                &nothing,
                Some("disruptionMode from Workload w: enable its feature gate GenericWorkload"),
            ),
            ("more than was sent", &nothing, &topology, None),
        ] {
            let dropped = dropped_from_workload(&[template(sent.clone())], &workload(&template(stored.clone())));
            assert_eq!(dropped.first().map(String::as_str), want, "{case}");
            assert!(dropped.len() <= 1, "{case}: {dropped:?}");
        }
    }

    #[test]
    fn a_group_without_the_topology_of_its_template_is_reported() {
        let template = template(json!({"schedulingConstraints": {"topology": [{"key": "rack"}]}}));
        let group = |constraints: Value| {
            let origin = json!({"workloadName": "w", "templateName": "t"});
            let spec = json!({"workloadRef": origin, "schedulingConstraints": constraints});
            PodGroupView::decode(json!({"metadata": {"name": "g"}, "spec": spec}).to_string().as_bytes()).unwrap()
        };
        let workload = workload(&template);
        assert_eq!(dropped_from_group(&workload, &group(json!({"topology": [{"key": "rack"}]}))), None);
        let dropped = dropped_from_group(&workload, &group(Value::Null)).unwrap();
        assert!(dropped.starts_with("schedulingConstraints.topology from PodGroup g"), "{dropped}");
    }

    #[test]
    fn pods_that_run_outside_their_group_are_counted() {
        let group = json!({"metadata": {"name": "g", "uid": "u", "creationTimestamp": "2026-01-01T00:00:10Z"}});
        let group = PodGroupView::decode(group.to_string().as_bytes()).unwrap();
        for (case, pods, want) in [
            ("none yet", vec![], None),
            ("inside", vec![pod(Some("g"), "Running", 11)], None),
            ("outside", vec![pod(Some("g"), "Pending", 11), pod(None, "Pending", 11)], Some("1 of 2 pods")),
            ("one of two has ended", vec![pod(None, "Pending", 11), pod(None, "Failed", 11)], Some("1 of 1 pods")),
            ("older than the group", vec![pod(None, "Running", 9)], None),
            ("ended", vec![pod(None, "Succeeded", 11)], None),
        ] {
            let dropped = dropped_from_pods(&group, &pods, false);
            assert_eq!(dropped.is_some(), want.is_some(), "{case}: {dropped:?}");
            assert!(dropped.unwrap_or_default().contains(want.unwrap_or_default()), "{case}");
            // A Job with the label phalanx.dev/groups: disabled has plain pods, which no server dropped from a group.
            assert_eq!(dropped_from_pods(&group, &pods, true), None, "{case}: none was sent as a member");
            let sent = |pod: Arc<PodView>| {
                let owner = OwnerRef { uid: "u".to_owned(), ..OwnerRef::default() };
                let mut pod = (*pod).clone();
                pod.metadata.owner_references = vec![owner];
                Arc::new(pod)
            };
            let sent: Vec<_> = pods.into_iter().map(sent).collect();
            let dropped = dropped_from_pods(&group, &sent, true);
            // A pod with the group as an owner was sent as a member, whatever its creation time.
            let want = want.or((case == "older than the group").then_some(""));
            assert_eq!(dropped.is_some(), want.is_some(), "{case}, sent as members: {dropped:?}");
        }
    }
}
