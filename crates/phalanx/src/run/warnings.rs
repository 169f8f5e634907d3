//! Warning Events of the objects of a run: each is reported once, up to a limit.

use std::collections::BTreeSet;

use kube::Client;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::client::api_request::{self, items, text};
use crate::client::list_watch::{CollectionEvent, ListWatch};
use crate::run::progress::{TrackedWork, WorkState};

/// How many warnings are reported; the others are counted.
const MAX_REPORTED: usize = 20;
/// How many distinct warnings are remembered; all others count as new.
const MAX_DISTINCT: usize = 1000;

/// The Warning Events of one server.
pub struct WarningWatcher<'a> {
    events: ListWatch<'a>,
    log: WarningLog,
}

/// What was reported.
#[derive(Debug, Default)]
pub struct WarningLog {
    /// The reported lines, in order.
    pub reported: Vec<String>,
    /// How many more there were.
    pub omitted: usize,
    distinct: BTreeSet<String>,
}

impl<'a> WarningWatcher<'a> {
    /// Watches the Events of all namespaces.
    pub fn new(client: &'a Client) -> WarningWatcher<'a> {
        let events = ListWatch::new(
            client,
            "/api/v1/events".to_owned(),
            vec![("fieldSelector", "type=Warning")],
            api_request::JSON,
        );
        WarningWatcher { events, log: WarningLog::default() }
    }

    /// Waits until `deadline`; returns the Events that arrived.
    pub async fn until(&mut self, deadline: Instant) -> Vec<Value> {
        let mut arrived = Vec::new();
        while let Ok(event) = timeout_at(deadline, self.events.next()).await {
            match event {
                Ok(CollectionEvent::Listed(list)) => arrived.extend(items(&list["items"]).cloned()),
                Ok(CollectionEvent::Changed(event)) => arrived.push(event),
                Ok(CollectionEvent::Deleted(_)) => {}
                // A server without Events has no warnings to report.
                Err(_) => tokio::time::sleep_until(deadline).await,
            }
        }
        arrived
    }

    /// Lines for new warnings among `events`; `works` is the current state.
    pub fn report(&mut self, events: &[Value], works: &[TrackedWork]) -> Vec<String> {
        let before = self.log.reported.len();
        events.iter().for_each(|event| self.log.add(event, works));
        self.log.reported[before..].to_vec()
    }

    /// Everything that was reported.
    pub fn into_log(self) -> WarningLog {
        self.log
    }
}

impl WarningLog {
    fn add(&mut self, event: &Value, works: &[TrackedWork]) {
        let object = &event["involvedObject"];
        let [kind, namespace, name] = ["kind", "namespace", "name"].map(|field| text(&object[field]));
        let (reason, message) = (text(&event["reason"]), text(&event["message"]));
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let work = works.iter().find(|work| work.has_object(&kind, &namespace, &name));
        if work.is_some_and(|work| is_already_shown(work, &reason, &message)) {
            return;
        }
        let title = work.map_or_else(|| format!("{}/{name}", kind.to_lowercase()), |work| work.title.clone());
        // Pods of one Job differ in their names, and repetitions in their numbers.
        let pattern: String =
            message.replace(&name, "").chars().filter(|character| !character.is_ascii_digit()).collect();
        if self.distinct.len() < MAX_DISTINCT && !self.distinct.insert(format!("{title}\n{reason}\n{pattern}")) {
            return;
        }
        if self.reported.len() == MAX_REPORTED {
            self.omitted += 1;
        } else {
            self.reported.push(format!("{title}: {reason}: {message}"));
        }
    }
}

/// Whether progress or explanation already has it: the current refusal, or the failure.
fn is_already_shown(work: &TrackedWork, reason: &str, message: &str) -> bool {
    let is_refusal = reason == "FailedScheduling" && (work.refusal.is_some() || work.state != WorkState::Waiting);
    is_refusal || work.failure.as_ref().is_some_and(|failure| failure.contains(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, name: &str, reason: &str, message: &str) -> Value {
        json!({"involvedObject": {"kind": kind, "namespace": "default", "name": name}, "reason": reason, "message": message})
    }

    #[test]
    fn a_warning_is_reported_once_for_each_object_and_their_number_is_limited() {
        let mut log = WarningLog::default();
        log.add(&event("Pod", "a-x1", "Odd", "pod a-x1 waited 3 s\n"), &[]);
        log.add(&event("Pod", "a-x1", "Odd", "pod a-x1 waited 14 s"), &[]);
        log.add(&event("Pod", "b", "Odd", "pod b waited 3 s"), &[]);
        assert_eq!(log.reported, ["pod/a-x1: Odd: pod a-x1 waited 3 s", "pod/b: Odd: pod b waited 3 s"]);
        for n in 0..2 * MAX_REPORTED {
            log.add(&event("Job", &format!("job-{n}"), "Failed", "no"), &[]);
        }
        assert_eq!((log.reported.len(), log.omitted), (MAX_REPORTED, MAX_REPORTED + 2));
    }
}
