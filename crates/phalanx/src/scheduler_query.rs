//! Asks a scheduler about units: the one of the server, or one at an address; where none answers, a core of our own.

use std::sync::Arc;

use api::views::{NodeView, PodGroupView, PodView, View};
use kube::{Client, Config, Error};
use scheduler::document;
use scheduler_core::Unit;
use serde::Serialize;
use serde_json::Value;

use crate::client::Connection;
use crate::command_error::CommandError;
use crate::kinds::ServedKinds;
use crate::local_core::{self, ClusterObjects};
use crate::{api_request, deadline};

/// Where the server of Phalanx has what its scheduler answers.
const SERVER_PATH: &str = "/apis/phalanx.dev/v1alpha1";

/// What a scheduler says.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerResponse {
    /// Who says it.
    pub source: String,
    /// A document for each unit that is known there.
    pub units: Vec<Value>,
}

impl SchedulerResponse {
    /// For people, a line each.
    pub fn lines(&self) -> Vec<String> {
        let texts: Vec<Vec<&str>> = self.units.iter().map(text).filter(|lines| !lines.is_empty()).collect();
        if texts.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![format!("scheduling, {}", self.source)];
        for text in texts {
            lines.extend(text.into_iter().map(|line| format!("  {line}")));
        }
        lines
    }
}

impl SchedulerResponse {
    /// What is said of a group that waits, or of a pod: `podgroup` or `pod`, and its name. Of a pod of a group its group's.
    pub fn waiting_reason(&self, kind: &str, name: &str) -> Option<String> {
        let is_meant = |unit: &&Value| {
            let told_kind = unit["unit"]["kind"].as_str().unwrap_or_default();
            told_kind.eq_ignore_ascii_case(kind) && unit["unit"]["name"] == name
        };
        let unit = self.units.iter().find(is_meant)?;
        let refused = unit["refusal"]["message"].as_str().map(|message| format!("waits: {message}"));
        let set_aside = unit["why"].as_str().map(|why| format!("is not placed: {why}"));
        let fits = (unit["state"] == "FitsNow").then(|| "is about to be placed: it fits now".to_owned());
        refused.or(set_aside).or(fits)
    }
}

fn text(unit: &Value) -> Vec<&str> {
    unit["text"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Asks about `units`: at `address` if there is one, else the server's own scheduler. Where no scheduler answers, the whole
/// cluster is listed and a core of our own is asked.
pub async fn query_scheduler(
    units: &[Unit],
    connection: &Connection,
    kinds: &ServedKinds,
    address: Option<&str>,
) -> Result<Option<SchedulerResponse>, CommandError> {
    let client = &connection.client;
    if units.is_empty() {
        return Ok(None);
    }
    let (asked, root, source) = match address {
        Some(address) => (
            deadline::with_deadline(client_at(address)?, connection.request_timeout.0),
            "",
            format!("as the scheduler at {address} sees it"),
        ),
        None => (client.clone(), SERVER_PATH, "as the server's scheduler sees it".to_owned()),
    };
    match query_units(units, &asked, root).await {
        Ok(units) => return Ok(Some(SchedulerResponse { source, units })),
        Err(error) if address.is_some() => {
            eprintln!("note: the scheduler at {} does not answer: {error}", address.unwrap_or_default());
        }
        // Any other server than ours, or ours without a scheduler.
        Err(Error::Api(status)) if matches!(status.code, 403 | 404 | 405 | 503) => {}
        Err(error) => return Err(error.into()),
    }
    let Some(everything) = list_cluster(client, kinds).await? else { return Ok(None) };
    let explained = local_core::explain(&everything, units);
    let source = "worked out here from all nodes and pods: no scheduler was asked".to_owned();
    Ok(Some(SchedulerResponse { source, units: explained.iter().map(document::unit).collect() }))
}

/// What the scheduler below `root` says about each of the units.
async fn query_units(units: &[Unit], client: &Client, root: &str) -> Result<Vec<Value>, Error> {
    let mut told = Vec::new();
    for unit in units {
        let kind = match unit {
            Unit::Group(_) => "podgroup",
            Unit::Pod(_) => "pod",
        };
        let key = unit.key();
        let query = api_request::query(&[("kind", kind), ("namespace", &key.namespace), ("name", &key.name)]);
        match api_request::get(client, &format!("{root}/explain{query}"), api_request::JSON).await {
            Ok(mut document) => {
                told.extend(document["units"].as_array_mut().map(std::mem::take).unwrap_or_default());
            }
            // It answers, and does not know this one: its pods have ended, perhaps.
            Err(Error::Api(status)) if status.code == 404 && status.message.contains("knows nothing of") => {}
            Err(error) => return Err(error),
        }
    }
    Ok(told)
}

/// A client for the plain HTTP of a scheduler.
fn client_at(address: &str) -> Result<Client, CommandError> {
    let wrong = |why: &dyn std::fmt::Display| {
        CommandError::usage(format!("--scheduler {address}: {why}; it looks like http://127.0.0.1:10259"))
    };
    let url: http::Uri = address.parse().map_err(|error| wrong(&error))?;
    if url.scheme_str() != Some("http") || url.authority().is_none() {
        return Err(wrong(&"not an address of plain HTTP"));
    }
    let mut config = Config::new(url);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| wrong(&error))
}

/// The whole cluster; none if some of it may not be read.
async fn list_cluster(client: &Client, kinds: &ServedKinds) -> Result<Option<ClusterObjects>, CommandError> {
    let (nodes, groups, pods) = (
        list_views::<NodeView>(client, kinds, "nodes").await?,
        list_views::<PodGroupView>(client, kinds, "podgroups.scheduling.k8s.io").await?,
        list_views::<PodView>(client, kinds, "pods").await?,
    );
    let (Some(nodes), Some(groups), Some(pods)) = (nodes, groups, pods) else { return Ok(None) };
    Ok(Some(ClusterObjects { nodes, groups, pods }))
}

/// All objects of a kind over all namespaces; none at all where the server does not have the kind.
async fn list_views<V: View>(
    client: &Client,
    kinds: &ServedKinds,
    kind: &str,
) -> Result<Option<Vec<Arc<V>>>, CommandError> {
    let Ok(kind) = kinds.find_by_name(kind) else { return Ok(Some(Vec::new())) };
    match api_request::list(client, &kind.collection_path(None), &[], api_request::JSON).await {
        Ok(list) => {
            let views = api_request::items(&list["items"]).map(|object| crate::explain::decode(object).map(Arc::new));
            Ok(Some(views.collect::<Result<_, _>>()?))
        }
        Err(Error::Api(status)) if status.code == 403 => {
            eprintln!("note: nothing is worked out here: {}", status.message);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
