//! The explanation of an object: what it waits for, or where its pods are. Pure: views in, text or JSON out.

mod counts; // pods by state

use std::collections::{BTreeMap, BTreeSet};

use api::Timestamp;
use api::views::{Condition, JobView, MetaView, NodeView, PodGroupView, PodView, WorkloadView};
use scheduler::query::types::UnitKind;
use scheduler_core::Unit;
use serde::Serialize;
use serde_json::{Value, json};

use self::counts::PodCounts;
use crate::explain::scheduler_query::SchedulerResponse;
use crate::run::report::DOMAIN_KEYS;

/// Events in an explanation; older ones are omitted.
const MAX_EVENTS: usize = 10;
/// How many pods without a group the scheduler is queried about.
const MAX_UNGROUPED_PODS: usize = 3;
const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";
const NO_SCHEDULER_RESPONSE: &str = "waits: no scheduler has reported anything about it yet";

/// The object to explain.
pub enum Subject {
    /// A Job.
    Job(Box<JobView>),
    /// A Workload.
    Workload(WorkloadView),
    /// A PodGroup.
    Group(PodGroupView),
    /// A pod.
    Pod(Box<PodView>),
}

impl Subject {
    fn label_and_meta(&self) -> (&'static str, &MetaView) {
        match self {
            Subject::Job(job) => ("job.batch", &job.metadata),
            Subject::Workload(workload) => ("workload.scheduling.k8s.io", &workload.metadata),
            Subject::Group(group) => ("podgroup.scheduling.k8s.io", &group.metadata),
            Subject::Pod(pod) => ("pod", &pod.metadata),
        }
    }
}

/// All objects of the subject's namespace that may concern it.
pub struct Evidence {
    /// The object to explain.
    pub subject: Subject,
    /// PodGroups.
    pub groups: Vec<PodGroupView>,
    /// Pods.
    pub pods: Vec<PodView>,
    /// Nodes; only their labels are read.
    pub nodes: Vec<NodeView>,
    /// Events.
    pub events: Vec<ObservedEvent>,
}

/// An Event, as far as it is printed.
#[derive(Clone, Debug, Default)]
pub struct ObservedEvent {
    uid: String,
    object: String,
    level: String,
    reason: String,
    message: String,
    count: i64,
    last: Option<Timestamp>,
}

impl ObservedEvent {
    /// Reads an Event of either form: with a count and a last time, or with a series.
    pub fn from_object(event: &Value) -> ObservedEvent {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["involvedObject"];
        let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
        let created = &event["metadata"]["creationTimestamp"];
        let time = times.into_iter().chain([created]).find_map(|time| time.as_str()?.parse().ok());
        ObservedEvent {
            uid: text(&object["uid"]),
            object: format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["name"])),
            level: text(&event["type"]),
            reason: text(&event["reason"]),
            message: text(&event["message"]),
            count: event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1),
            last: time,
        }
    }
}

/// Why an object waits, or where its pods are.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The object: `job.batch/trainer`.
    object: String,
    namespace: String,
    /// The result in one line.
    summary: String,
    conditions: Vec<ReportedCondition>,
    /// The PodGroups of the object, and its pods without one.
    groups: Vec<GroupExplanation>,
    /// The response of a scheduler, if one was queried.
    scheduler: Option<SchedulerResponse>,
    events: Vec<ReportedEvent>,
}

/// A group with its pods, or pods without a group.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupExplanation {
    title: String,
    policy: String,
    min_count: Option<i32>,
    topology_key: Option<String>,
    priority: Option<i32>,
    /// The result in one line.
    summary: String,
    pods: PodCounts,
    conditions: Vec<ReportedCondition>,
    /// Where the pods are, by domain.
    domains: Vec<DomainPlacement>,
    pending_messages: Vec<PendingMessage>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportedCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    since: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DomainPlacement {
    domain: String,
    nodes: usize,
    pods: usize,
}

/// A message of pending pods, with their number.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PendingMessage {
    pods: usize,
    example: String,
    message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportedEvent {
    last: Option<Timestamp>,
    level: String,
    reason: String,
    object: String,
    count: i64,
    message: String,
}

impl Explanation {
    /// Builds the explanation from the objects and the response of a scheduler.
    pub fn from_evidence(evidence: &Evidence, response: Option<SchedulerResponse>) -> Explanation {
        let (label, meta) = evidence.subject.label_and_meta();
        let pod_groups = evidence.related_groups();
        let mut groups: Vec<GroupExplanation> =
            pod_groups.iter().map(|group| evidence.explain_group(group, response.as_ref())).collect();
        groups.extend(evidence.explain_ungrouped_pods());
        let conditions: &[Condition] = match &evidence.subject {
            Subject::Job(job) => &job.status.conditions,
            Subject::Pod(pod) => &pod.status.conditions,
            // Those of a group are in its own entry; a Workload has none.
            Subject::Workload(_) | Subject::Group(_) => &[],
        };
        Explanation {
            object: format!("{label}/{}", meta.name),
            namespace: meta.namespace.clone(),
            summary: evidence.summary(&groups, response.as_ref()),
            conditions: conditions.iter().map(ReportedCondition::from_condition).collect(),
            events: evidence.related_events(&pod_groups),
            scheduler: response,
            groups,
        }
    }

    /// The explanation as JSON.
    pub fn json(&self) -> Value {
        let mut document = json!({"apiVersion": "phalanx.dev/v1alpha1", "kind": "Explanation"});
        let fields = serde_json::to_value(self).expect("strings and numbers can always be serialised");
        if let (Value::Object(document), Value::Object(fields)) = (&mut document, fields) {
            document.extend(fields);
        }
        document
    }

    /// The explanation for people.
    pub fn text(&self, now: Timestamp) -> String {
        let mut lines = vec![format!("{} in namespace {}", self.object, self.namespace), self.summary.clone()];
        lines.extend(self.conditions.iter().map(|condition| format!("  {}", condition.text(now))));
        for group in &self.groups {
            lines.push(String::new());
            lines.extend(group.lines(&self.summary, now));
        }
        if let Some(scheduling) =
            self.scheduler.as_ref().map(SchedulerResponse::lines).filter(|lines| !lines.is_empty())
        {
            lines.push(String::new());
            lines.extend(scheduling);
        }
        if !self.events.is_empty() {
            lines.extend([String::new(), "events".to_owned()]);
            lines.extend(self.events.iter().map(|event| format!("  {}", event.text(now))));
        }
        lines.join("\n") + "\n"
    }
}

impl Evidence {
    /// The units to query: a pod, or groups and some of the pods without one, pending ones first.
    pub fn units(&self) -> Vec<Unit> {
        if let Subject::Pod(pod) = &self.subject {
            return if pod.is_finished() { Vec::new() } else { vec![Unit::Pod(pod.metadata.key())] };
        }
        let mut units: Vec<Unit> =
            self.related_groups().into_iter().map(|group| Unit::Group(group.metadata.key())).collect();
        if let Subject::Job(job) = &self.subject {
            let ungrouped = self.pods_of(job).filter(|pod| pod.group_name().is_none() && !pod.is_finished());
            let mut ungrouped: Vec<&PodView> = ungrouped.collect();
            ungrouped.sort_by_key(|pod| pod.node_name().is_some());
            units.extend(ungrouped.into_iter().take(MAX_UNGROUPED_PODS).map(|pod| Unit::Pod(pod.metadata.key())));
        }
        units
    }

    fn related_groups(&self) -> Vec<&PodGroupView> {
        let owned = |owner: &MetaView| {
            let uid = owner.uid.clone();
            move |group: &&PodGroupView| group.metadata.owner_references.iter().any(|reference| reference.uid == uid)
        };
        match &self.subject {
            Subject::Group(group) => {
                self.groups.iter().filter(|other| other.metadata.uid == group.metadata.uid).collect()
            }
            Subject::Workload(workload) => {
                let name = &workload.metadata.name;
                let refers = |group: &&PodGroupView| {
                    group.spec.workload_ref.as_ref().is_some_and(|origin| origin.workload_name == *name)
                };
                self.groups.iter().filter(refers).collect()
            }
            Subject::Job(job) => {
                let is_own = owned(&job.metadata);
                let used: BTreeSet<&str> = self.pods_of(job).filter_map(PodView::group_name).collect();
                self.groups.iter().filter(|group| is_own(group) || used.contains(&*group.metadata.name)).collect()
            }
            Subject::Pod(pod) => {
                self.groups.iter().filter(|group| pod.group_name() == Some(&group.metadata.name)).collect()
            }
        }
    }

    /// The pods that a Job controls.
    fn pods_of<'a>(&'a self, job: &'a JobView) -> impl Iterator<Item = &'a PodView> {
        let is_own = |pod: &&PodView| pod.metadata.controller().is_some_and(|owner| owner.uid == job.metadata.uid);
        self.pods.iter().filter(is_own)
    }

    fn explain_group(&self, group: &PodGroupView, response: Option<&SchedulerResponse>) -> GroupExplanation {
        let pods: Vec<&PodView> =
            self.pods.iter().filter(|pod| pod.group_name() == Some(&group.metadata.name)).collect();
        let topology_key = group.topology_key().map(str::to_owned);
        let mut explanation = GroupExplanation {
            title: format!("podgroup {}", group.metadata.name),
            policy: if group.min_count().is_some() { "Gang" } else { "Basic" }.to_owned(),
            min_count: group.min_count(),
            priority: group.spec.priority,
            summary: String::new(),
            pods: PodCounts::of(&pods),
            conditions: group.status.conditions.iter().map(ReportedCondition::from_condition).collect(),
            domains: self.domain_placements(&pods, topology_key.as_deref()),
            pending_messages: pending_messages(&pods),
            topology_key,
        };
        let reason = response.and_then(|response| response.waiting_reason(UnitKind::PodGroup, &group.metadata.name));
        explanation.summary = explanation.group_summary(reason);
        explanation
    }

    /// The pods of the subject without a group.
    fn explain_ungrouped_pods(&self) -> Option<GroupExplanation> {
        let pods: Vec<&PodView> = match &self.subject {
            Subject::Job(job) => self.pods_of(job).filter(|pod| pod.group_name().is_none()).collect(),
            Subject::Pod(pod) if pod.group_name().is_none() => vec![pod],
            _ => return None,
        };
        if pods.is_empty() {
            return None;
        }
        let counts = PodCounts::of(&pods);
        Some(GroupExplanation {
            title: "pods without a group".to_owned(),
            policy: "each alone".to_owned(),
            min_count: None,
            topology_key: None,
            priority: None,
            summary: counts.text(),
            pods: counts,
            conditions: Vec::new(),
            domains: self.domain_placements(&pods, None),
            pending_messages: pending_messages(&pods),
        })
    }

    /// Where the pods are that have not ended; where all have ended, where they were.
    fn domain_placements(&self, pods: &[&PodView], key: Option<&str>) -> Vec<DomainPlacement> {
        let mut domains: BTreeMap<String, (BTreeSet<&str>, usize)> = BTreeMap::new();
        let all_ended = pods.iter().all(|pod| pod.is_finished());
        for pod in pods.iter().filter(|pod| all_ended || !pod.is_finished()) {
            let Some(node) = pod.node_name() else { continue };
            let (nodes, count) = domains.entry(self.domain(node, key)).or_default();
            nodes.insert(node);
            *count += 1;
        }
        let placement = |(domain, (nodes, pods)): (String, (BTreeSet<&str>, usize))| DomainPlacement {
            domain,
            nodes: nodes.len(),
            pods,
        };
        domains.into_iter().map(placement).collect()
    }

    /// `topology.kubernetes.io/rack=rack-0` by the group's own key, else by the first well-known one, else the node.
    fn domain(&self, node: &str, key: Option<&str>) -> String {
        let labels = self.nodes.iter().find(|known| known.metadata.name == node).map(|known| &known.metadata.labels);
        let mut keys = key.into_iter().chain(DOMAIN_KEYS);
        let found =
            labels.and_then(|labels| keys.find_map(|key| labels.get(key).map(|value| format!("{key}={value}"))));
        found.unwrap_or_else(|| format!("node {node}"))
    }

    fn summary(&self, groups: &[GroupExplanation], response: Option<&SchedulerResponse>) -> String {
        let of_groups = || groups.iter().map(|group| group.summary.as_str()).collect::<Vec<_>>().join("; ");
        match &self.subject {
            Subject::Group(_) | Subject::Workload(_) if groups.is_empty() => {
                "waits: no PodGroup has been created from it yet".to_owned()
            }
            Subject::Group(_) | Subject::Workload(_) => of_groups(),
            Subject::Job(job) => job_summary(job).unwrap_or_else(|| match groups {
                [] => match &job.spec.template.scheduling_group {
                    Some(group) => format!("waits: the PodGroup {group} that its pods name does not exist"),
                    None => "waits: its controller has created no pods yet".to_owned(),
                },
                _ => of_groups(),
            }),
            Subject::Pod(pod) => self.pod_summary(pod, response),
        }
    }

    fn pod_summary(&self, pod: &PodView, response: Option<&SchedulerResponse>) -> String {
        if let Some(node) = pod.node_name() {
            let key = self.related_groups().first().and_then(|group| group.topology_key().map(str::to_owned));
            return format!("{:?} on node {node}, {}", pod.status.phase, self.domain(node, key.as_deref()));
        }
        let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
        if !gates.is_empty() {
            return format!("waits: held by scheduling gates: {}", gates.join(", "));
        }
        match pod.group_name() {
            Some(group) if self.related_groups().is_empty() => {
                format!("waits: the PodGroup {group} that it names does not exist")
            }
            // Pods of an incomplete group have no condition.
            group => {
                let of_group = || response?.waiting_reason(UnitKind::PodGroup, group?);
                let of_pod = || response?.waiting_reason(UnitKind::Pod, &pod.metadata.name);
                let of_condition = pending_message(pod).map(|message| format!("waits: {message}"));
                of_condition.or_else(of_pod).or_else(of_group).unwrap_or_else(|| NO_SCHEDULER_RESPONSE.to_owned())
            }
        }
    }

    /// The last Events about the subject, its groups and their pods. Events of one reason about many pods are merged.
    fn related_events(&self, groups: &[&PodGroupView]) -> Vec<ReportedEvent> {
        let (_, meta) = self.subject.label_and_meta();
        let names: BTreeSet<&str> = groups.iter().map(|group| group.metadata.name.as_str()).collect();
        let mut uids: BTreeSet<&str> = groups.iter().map(|group| group.metadata.uid.as_str()).collect();
        uids.insert(&meta.uid);
        if !matches!(self.subject, Subject::Pod(_)) {
            let is_related = |pod: &&PodView| {
                pod.group_name().is_some_and(|group| names.contains(group))
                    || pod.metadata.controller().is_some_and(|owner| owner.uid == meta.uid)
            };
            uids.extend(self.pods.iter().filter(is_related).map(|pod| pod.metadata.uid.as_str()));
        }
        let mut merged: BTreeMap<(&str, &str), Vec<&ObservedEvent>> = BTreeMap::new();
        for event in self.events.iter().filter(|event| uids.contains(event.uid.as_str())) {
            let kind = event.object.split('/').next().unwrap_or_default();
            merged.entry((kind, &event.reason)).or_default().push(event);
        }
        let reported = |((kind, _), events): ((&str, &str), Vec<&ObservedEvent>)| {
            let objects: BTreeSet<&str> = events.iter().map(|event| event.object.as_str()).collect();
            let last = events.iter().max_by_key(|event| event.last).expect("every entry has an event");
            ReportedEvent {
                last: last.last,
                level: last.level.clone(),
                reason: last.reason.clone(),
                object: match objects.len() {
                    1 => last.object.clone(),
                    count => format!("{count} {kind}s"),
                },
                count: events.iter().map(|event| event.count).sum(),
                message: last.message.clone(),
            }
        };
        let mut events: Vec<ReportedEvent> = merged.into_iter().map(reported).collect();
        events.sort_by_key(|event| event.last);
        events.split_off(events.len().saturating_sub(MAX_EVENTS))
    }
}

/// The summary of a Job that has ended or is suspended.
fn job_summary(job: &JobView) -> Option<String> {
    let is_true = |kind: &str| {
        job.status.conditions.iter().find(|condition| condition.kind == kind && condition.status == "True")
    };
    if let Some(failed) = is_true("Failed").or_else(|| is_true("FailureTarget")) {
        return Some(format!("failed: {}: {}", failed.reason, failed.message));
    }
    if is_true("Complete").is_some() {
        return Some(format!("done: {} succeeded, {} failed", job.status.succeeded, job.status.failed));
    }
    (job.spec.suspend == Some(true)).then(|| "suspended: no pod runs until spec.suspend is false".to_owned())
}

/// The reason of a pending pod, from its condition.
fn pending_message(pod: &PodView) -> Option<String> {
    let is_refusal = |condition: &&Condition| condition.kind == "PodScheduled" && condition.status == "False";
    let refused = pod.status.conditions.iter().find(is_refusal)?;
    let texts: Vec<&str> = [&*refused.reason, &refused.message].into_iter().filter(|text| !text.is_empty()).collect();
    Some(texts.join(": "))
}

fn pending_messages(pods: &[&PodView]) -> Vec<PendingMessage> {
    let mut by_message: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| pod.node_name().is_none() && !pod.is_finished()) {
        if let Some(message) = pending_message(pod) {
            by_message.entry(message).or_default().push(&pod.metadata.name);
        }
    }
    let pending = |(message, names): (String, Vec<&str>)| PendingMessage {
        pods: names.len(),
        example: names[0].to_owned(),
        message,
    };
    by_message.into_iter().map(pending).collect()
}

impl GroupExplanation {
    /// `scheduler_reason`: why the group waits, from the response of a scheduler.
    fn group_summary(&self, scheduler_reason: Option<String>) -> String {
        let condition = self.conditions.iter().find(|condition| condition.kind == INITIALLY_SCHEDULED);
        let PodCounts { placed, waiting, .. } = self.pods;
        let (unfinished, ended) = (self.pods.unfinished(), self.pods.ended_text());
        // Without the condition, a group has started if pods have ended and all others have a node.
        let has_started = ended.is_some() && waiting == 0;
        let is_scheduled = condition.map_or(has_started, |condition| condition.status == "True");
        let needed = usize::try_from(self.min_count.unwrap_or(0)).unwrap_or(0);
        let summary = match condition {
            _ if !is_scheduled && unfinished < needed => {
                format!("waits for pods: {unfinished} of {needed} needed pods exist")
            }
            Some(condition) if !is_scheduled => return format!("waits: {}", condition.message),
            None if !is_scheduled && placed == 0 => {
                return scheduler_reason.unwrap_or_else(|| NO_SCHEDULER_RESPONSE.to_owned());
            }
            None if !is_scheduled && placed < needed => {
                format!("is being placed: {placed} of {needed} needed pods have a node")
            }
            _ if unfinished == 0 => {
                return ended.map_or("was placed; its pods are deleted".to_owned(), |ended| format!("ended: {ended}"));
            }
            _ if placed == 0 => format!("waits: none of {} has a node", counted(unfinished, "pod")),
            _ if waiting > 0 => {
                let wait = if waiting == 1 { "1 waits".to_owned() } else { format!("{waiting} wait") };
                format!("{placed} of {unfinished} pods {}; {wait}", self.placement_text())
            }
            _ => self.placement_text(),
        };
        summary + &ended.map(|ended| format!("; ended: {ended}")).unwrap_or_default()
    }

    /// `placed on 8 nodes in rack=r1`.
    fn placement_text(&self) -> String {
        match self.domains.as_slice() {
            [place] => format!("placed on {} in {}", counted(place.nodes, "node"), place.domain),
            places => {
                let nodes = places.iter().map(|place| place.nodes).sum();
                format!("placed on {} in {}", counted(nodes, "node"), counted(places.len(), "domain"))
            }
        }
    }

    fn lines(&self, shown_summary: &str, now: Timestamp) -> Vec<String> {
        let mut traits = vec![match self.min_count {
            Some(count) => format!("gang of {count}"),
            None => self.policy.to_lowercase(),
        }];
        traits.extend(self.topology_key.as_ref().map(|key| format!("all in one {key}")));
        traits.extend(self.priority.map(|priority| format!("priority {priority}")));
        let mut lines = vec![format!("{}: {}", self.title, traits.join(", "))];
        if self.summary != shown_summary && self.summary != self.pods.text() {
            lines.push(format!("  {}", self.summary));
        }
        lines.push(format!("  {}", self.pods.text()));
        lines.extend(self.conditions.iter().map(|condition| format!("  {}", condition.text(now))));
        lines.extend(self.domains.iter().map(|place| {
            let place_word = if self.pods.unfinished() == 0 { "were in" } else { "in" };
            format!(
                "  {place_word} {}: {} on {}",
                place.domain,
                counted(place.pods, "pod"),
                counted(place.nodes, "node")
            )
        }));
        lines.extend(self.pending_messages.iter().map(|pending| match pending.pods {
            1 => format!("  pod {}: {}", pending.example, pending.message),
            count => format!("  {count} pods, such as {}: {}", pending.example, pending.message),
        }));
        lines
    }
}

impl ReportedCondition {
    fn from_condition(condition: &Condition) -> ReportedCondition {
        ReportedCondition {
            kind: condition.kind.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: condition.last_transition_time,
        }
    }

    fn text(&self, now: Timestamp) -> String {
        let since = self.since.map(|since| format!(" for {}", ago(since, now))).unwrap_or_default();
        let texts: Vec<&str> = [&*self.reason, &self.message].into_iter().filter(|text| !text.is_empty()).collect();
        let reason = if texts.is_empty() { String::new() } else { format!(": {}", texts.join(": ")) };
        format!("{}={}{since}{reason}", self.kind, self.status)
    }
}

impl ReportedEvent {
    fn text(&self, now: Timestamp) -> String {
        let age = self.last.map_or_else(|| "-".to_owned(), |last| ago(last, now));
        let times = if self.count > 1 { format!(" ({} times)", self.count) } else { String::new() };
        format!("{age:<6} {:<7} {} {}: {}{times}", self.level, self.reason, self.object, self.message)
    }
}

fn ago(then: Timestamp, now: Timestamp) -> String {
    crate::output::table::age(&Value::String(then.to_string()), now)
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests;
