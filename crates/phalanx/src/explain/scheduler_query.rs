//! Client of the scheduler's query API: of the API server, or at an address. Where no scheduler responds, a scheduler core
//! in this process explains the units.

use std::sync::Arc;

use api::views::{NodeView, PodGroupView, PodView, View};
use kube::{Client, Config, Error};
use scheduler::query::error::QueryErrorCode;
use scheduler::query::types::{
    EXPLAIN_PATH, ExplainResponse, SERVER_ROOT, TargetKind, UnitKind, UnitReference, UnitReport, UnitState,
};
use scheduler_core::Unit;
use serde::Serialize;

use crate::client::Connection;
use crate::client::kinds::ServedKinds;
use crate::client::{api_request, deadline};
use crate::command_error::CommandError;
use crate::explain::local_core::{self, ClusterObjects};

/// What a scheduler reports.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerResponse {
    /// Which scheduler it is, for people.
    pub source: String,
    /// Whether no scheduler responded, and this process computed the reports.
    #[serde(skip)]
    pub is_local: bool,
    /// A report for each unit that it knows.
    pub units: Vec<UnitReport>,
}

impl SchedulerResponse {
    /// The response for people, one line each.
    pub fn lines(&self) -> Vec<String> {
        let texts: Vec<&Vec<String>> =
            self.units.iter().map(|unit| &unit.text).filter(|text| !text.is_empty()).collect();
        if texts.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![format!("scheduling, {}", self.source)];
        lines.extend(texts.into_iter().flatten().map(|line| format!("  {line}")));
        lines
    }

    /// Why a PodGroup or pod waits. The report of a group member is about the group.
    pub fn waiting_reason(&self, kind: UnitKind, name: &str) -> Option<String> {
        let is_wanted = |unit: &&UnitReport| {
            let UnitReference { kind: unit_kind, name: unit_name, .. } = &unit.unit;
            *unit_kind == kind && unit_name == name
        };
        let unit = self.units.iter().find(is_wanted)?;
        let refused = unit.refusal.as_ref().map(|refusal| format!("waits: {}", refusal.message));
        let excluded = unit.exclusion_message.as_ref().map(|message| format!("is not placed: {message}"));
        let fits = (unit.state == UnitState::FitsNow).then(|| match self.is_local {
            true => "fits now, but no scheduler responds".to_owned(),
            false => "is about to be placed: it fits now".to_owned(),
        });
        refused.or(excluded).or(fits)
    }
}

/// Queries the scheduler about `units`: the one at `address` if given, else that of the API server. If none responds, the
/// whole cluster is listed and explained by a scheduler core in this process.
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
    let (scheduler_client, root, source) = match address {
        Some(address) => (
            deadline::with_deadline(client_at(address)?, connection.request_timeout.0),
            "",
            format!("as the scheduler at {address} sees it"),
        ),
        None => (client.clone(), SERVER_ROOT, "as the server's scheduler sees it".to_owned()),
    };
    match query_units(units, &scheduler_client, root).await {
        Ok(units) => return Ok(Some(SchedulerResponse { source, is_local: false, units })),
        Err(error) if address.is_some() => {
            let cause = runtime::failure::message(&error);
            eprintln!("note: the scheduler at {} does not respond: {cause}", address.unwrap_or_default());
        }
        // Not a Phalanx server, or one without a scheduler.
        Err(Error::Api(status)) if matches!(status.code, 403 | 404 | 405 | 503) => {}
        Err(error) => return Err(error.into()),
    }
    let Some(cluster) = list_cluster(client, kinds).await? else { return Ok(None) };
    let explanations = local_core::explain(&cluster, units);
    let source = "computed by this command from all nodes and pods, because no scheduler responded".to_owned();
    let units = explanations.iter().map(scheduler::query::unit_report).collect();
    Ok(Some(SchedulerResponse { source, is_local: true, units }))
}

/// The reports of the scheduler below `root` about each of the units.
async fn query_units(units: &[Unit], client: &Client, root: &str) -> Result<Vec<UnitReport>, Error> {
    let mut reports = Vec::new();
    for unit in units {
        let kind = match unit {
            Unit::Group(_) => TargetKind::PodGroup,
            Unit::Pod(_) => TargetKind::Pod,
        };
        let key = unit.key();
        let parameters =
            api_request::query(&[("kind", kind.parameter()), ("namespace", &key.namespace), ("name", &key.name)]);
        match api_request::get(client, &format!("{root}{EXPLAIN_PATH}{parameters}"), api_request::JSON).await {
            Ok(document) => {
                let response: ExplainResponse = serde_json::from_value(document).map_err(Error::SerdeError)?;
                reports.extend(response.units);
            }
            // The scheduler runs and does not know this unit: its pods may have ended.
            Err(Error::Api(status))
                if QueryErrorCode::from_reason(&status.reason) == Some(QueryErrorCode::UnitNotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reports)
}

/// A client for the plain HTTP of a scheduler's metrics listener.
fn client_at(address: &str) -> Result<Client, CommandError> {
    let invalid = |reason: &dyn std::fmt::Display| {
        CommandError::usage(format!("--scheduler {address}: {reason}; expected a URL such as http://127.0.0.1:10259"))
    };
    let url: http::Uri = address.parse().map_err(|error| invalid(&error))?;
    if url.scheme_str() != Some("http") || url.authority().is_none() {
        return Err(invalid(&"not an http URL"));
    }
    let mut config = Config::new(url);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| invalid(&error))
}

/// The whole cluster; `None` if the user may not list all of it.
async fn list_cluster(client: &Client, kinds: &ServedKinds) -> Result<Option<ClusterObjects>, CommandError> {
    let (nodes, groups, pods) = (
        list_views::<NodeView>(client, kinds).await?,
        list_views::<PodGroupView>(client, kinds).await?,
        list_views::<PodView>(client, kinds).await?,
    );
    let (Some(nodes), Some(groups), Some(pods)) = (nodes, groups, pods) else { return Ok(None) };
    Ok(Some(ClusterObjects { nodes, groups, pods }))
}

/// All objects of a kind in all namespaces; empty if the server does not serve the kind.
async fn list_views<V: View>(client: &Client, kinds: &ServedKinds) -> Result<Option<Vec<Arc<V>>>, CommandError> {
    let Ok(kind) = kinds.find_by_name(&V::RESOURCE.qualified_plural()) else { return Ok(Some(Vec::new())) };
    match api_request::list(client, &kind.collection_path(None), &[], api_request::JSON).await {
        Ok(list) => {
            let views = api_request::items(&list["items"]).map(|object| crate::explain::decode(object).map(Arc::new));
            Ok(Some(views.collect::<Result<_, _>>()?))
        }
        Err(Error::Api(status)) if status.code == 403 => {
            eprintln!("note: scheduling is not explained: {}", status.message);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
