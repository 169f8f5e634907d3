//! Label and field selectors.
//!
//! Input: `l` or `f`, then the selector. A selector that can be parsed can be formatted and parsed again. The server
//! lists exactly the objects that the selector matches, and refuses exactly the selectors that cannot be parsed.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::SmallMap;
use api::selector::{FieldOperator, FieldSelector, LabelRequirement, ParsedLabelSelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::json;
use store::HistoryLimits;

use super::FuzzOutcome;
use super::checked_server::{CheckedServer, JSON, percent_encoded};

/// The labels of the pods.
const PODS: [&[(&str, &str)]; 6] = [
    &[],
    &[("a", "")],
    &[("a", "b")],
    &[("a", "b"), ("size", "5")],
    &[("size", "7"), ("in", "in")],
    &[("example.com/a", "B.c_d-1"), ("a", "5")],
];

/// Checks one input.
pub fn check(input: &[u8]) -> FuzzOutcome {
    let Some((&letter, text)) = input.split_first() else { return FuzzOutcome::Refused };
    let Ok(text) = std::str::from_utf8(text) else { return FuzzOutcome::Refused };
    let is_parsed = if letter == b'f' { check_fields(text) } else { check_labels(text) };
    if is_parsed { FuzzOutcome::Accepted } else { FuzzOutcome::Refused }
}

fn check_labels(text: &str) -> bool {
    let parsed = ParsedLabelSelector::parse(text).ok();
    let pods = PODS.map(|pod| pod.iter().map(|(key, value)| (*key, (*value).to_owned())).collect::<SmallMap<String>>());
    if let Some(parsed) = &parsed {
        let formatted = parsed.requirements().iter().map(format_label).collect::<Vec<_>>().join(",");
        assert_eq!(
            ParsedLabelSelector::parse(&formatted).as_ref(),
            Ok(parsed),
            "{text:?} is {formatted:?} when formatted"
        );
        if let Some(typed) = to_label_selector(parsed) {
            let typed = ParsedLabelSelector::from_label_selector(&typed)
                .expect("a selector that can be parsed has a typed form");
            for pod in &pods {
                assert_eq!(typed.matches(pod), parsed.matches(pod), "{text:?} typed, on {pod:?}");
            }
        }
    }
    let expected = parsed.as_ref().map(|parsed| names(|index| parsed.matches(&pods[index])));
    assert_eq!(list_names("labelSelector", text), expected, "{text:?}");
    parsed.is_some()
}

fn check_fields(text: &str) -> bool {
    let parsed = FieldSelector::parse(text).ok();
    if let Some(parsed) = &parsed {
        let formatted = parsed.requirements().iter().map(format_field).collect::<Vec<_>>().join(",");
        assert_eq!(FieldSelector::parse(&formatted).as_ref(), Ok(parsed), "{text:?} is {formatted:?} when formatted");
    }
    let known = parsed.filter(|parsed| parsed.requirements().iter().all(|term| value_of(&term.field, "").is_some()));
    let is_selected =
        |fields: &FieldSelector, name: &str| fields.matches(|field| value_of(field, name).unwrap_or_default());
    let expected = known.as_ref().map(|known| names(|index| is_selected(known, &name_of(index))));
    assert_eq!(list_names("fieldSelector", text), expected, "{text:?}");
    known.is_some()
}

/// The names of the selected pods.
fn names(is_selected: impl Fn(usize) -> bool) -> Vec<String> {
    (0..PODS.len()).filter(|index| is_selected(*index)).map(name_of).collect()
}

fn name_of(index: usize) -> String {
    format!("pod-{index}")
}

/// The value of a selectable field of the pods; `None` for a field that is not selectable.
fn value_of<'a>(field: &str, name: &'a str) -> Option<&'a str> {
    match field {
        "metadata.name" => Some(name),
        "metadata.namespace" | "spec.serviceAccountName" => Some("default"),
        "spec.nodeName" | "status.podIP" | "status.nominatedNodeName" => Some(""),
        "spec.restartPolicy" => Some("Always"),
        "spec.schedulerName" => Some("default-scheduler"),
        "spec.hostNetwork" => Some("false"),
        "status.phase" => Some("Pending"),
        _ => None,
    }
}

/// The names that the server lists; `None` if it refuses the selector.
fn list_names(option: &str, text: &str) -> Option<Vec<String>> {
    static SERVER: LazyLock<CheckedServer> = LazyLock::new(|| crate::on_paused_clock(server_with_pods()));
    let path = format!("/api/v1/namespaces/default/pods?{option}={}", percent_encoded(text));
    let response = crate::on_paused_clock(SERVER.get(&path));
    let items = response.value["items"].as_array()?;
    Some(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect())
}

async fn server_with_pods() -> CheckedServer {
    let server = CheckedServer::new(HistoryLimits::default());
    for (index, labels) in PODS.iter().enumerate() {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let pod = json!({
            "metadata": {"name": name_of(index), "labels": labels},
            "spec": {"serviceAccountName": "default", "containers": [{"name": "main", "image": "main"}]},
        });
        let created = server.request("POST", "/api/v1/namespaces/default/pods", JSON, pod.to_string()).await;
        created.expect_success("a pod for the selectors");
    }
    server
}

fn format_label(requirement: &LabelRequirement) -> String {
    match requirement {
        LabelRequirement::In(key, values) => format!("{key} in ({})", values.join(",")),
        LabelRequirement::NotIn(key, values) => format!("{key} notin ({})", values.join(",")),
        LabelRequirement::Exists(key) => key.clone(),
        LabelRequirement::DoesNotExist(key) => format!("!{key}"),
        LabelRequirement::GreaterThan(key, bound) => format!("{key}>{bound}"),
        LabelRequirement::LessThan(key, bound) => format!("{key}<{bound}"),
    }
}

fn format_field(term: &api::selector::FieldRequirement) -> String {
    let operator = if term.operator == FieldOperator::Equals { "=" } else { "!=" };
    let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
    format!("{}{operator}{value}", term.field)
}

/// The same requirements in the typed form of objects; `None` if there is none.
fn to_label_selector(labels: &ParsedLabelSelector) -> Option<LabelSelector> {
    let typed = |requirement: &LabelRequirement| {
        let (key, operator, values) = match requirement {
            LabelRequirement::In(key, values) => (key, "In", Some(values.clone())),
            LabelRequirement::NotIn(key, values) => (key, "NotIn", Some(values.clone())),
            LabelRequirement::Exists(key) => (key, "Exists", None),
            LabelRequirement::DoesNotExist(key) => (key, "DoesNotExist", None),
            LabelRequirement::GreaterThan(..) | LabelRequirement::LessThan(..) => return None,
        };
        Some(LabelSelectorRequirement { key: key.clone(), operator: operator.to_owned(), values })
    };
    let expressions: Option<Vec<_>> = labels.requirements().iter().map(typed).collect();
    Some(LabelSelector { match_expressions: Some(expressions?), ..LabelSelector::default() })
}
