//! Generates the requests: every mutation of every base object is a candidate, and a seed selects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use api::Random;
use api::schema::{ValueType, table};
use serde_json::{Value, json};

use super::corpus::{self, CorpusObject};
use super::document_path::DocumentPath;
use super::kinds::ComparedKind;
use super::mutate::{Mutation, mutations};

/// The last write of a case, whose response is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteVerb {
    Create,
    Update,
    Status,
}

impl WriteVerb {
    /// As in reports and expected-differences.yaml.
    pub fn as_str(self) -> &'static str {
        match self {
            WriteVerb::Create => "create",
            WriteVerb::Update => "update",
            WriteVerb::Status => "status",
        }
    }
}

/// The `fieldValidation` of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFieldPolicy {
    /// Unset: the server warns.
    Unset,
    Strict,
    Ignore,
}

impl UnknownFieldPolicy {
    /// The query of a write.
    pub fn query(self) -> &'static str {
        match self {
            UnknownFieldPolicy::Unset => "",
            UnknownFieldPolicy::Strict => "?fieldValidation=Strict",
            UnknownFieldPolicy::Ignore => "?fieldValidation=Ignore",
        }
    }
}

/// One case for both servers.
#[derive(Clone, Debug)]
pub struct ApiCase {
    pub kind: ComparedKind,
    /// The object's name, which is unique.
    pub name: String,
    pub base: Arc<CorpusObject>,
    pub verb: WriteVerb,
    /// The status that the object is given first.
    pub initial_status: Option<usize>,
    pub mutation: Mutation,
    pub field_validation: UnknownFieldPolicy,
}

/// The class of a case without a change: kube-apiserver accepts it, or the corpus is wrong.
pub const UNCHANGED: &str = "as it is";

/// The share of a kind's cases that change its pod template, which the kind Pod also covers.
const TEMPLATE_SHARE: f64 = 0.3;

/// The cases of a kind: `count` of them selected by `seed`, or all if `count` is `None`.
pub fn cases(root: &Path, kind: ComparedKind, seed: u64, count: Option<usize>) -> anyhow::Result<Vec<ApiCase>> {
    let shape = table().kind(kind.group, kind.version, kind.kind).context("the schema file has every kind")?;
    let bases = corpus::read(root, &kind)?;
    let pool = corpus::collect_values(shape, &bases);
    let mut candidates = Vec::new();
    for base in bases.into_iter().map(Arc::new) {
        candidates.extend(cases_for_base(kind, shape, &base, &pool));
    }
    let mut chosen = match count {
        Some(count) => choose(candidates, count, &Random::seeded(seed)),
        None => candidates,
    };
    // Some objects stay after their case, so the names of other kinds in the same store must differ.
    let start = |text: &str, length| text.to_lowercase().chars().take(length).collect::<String>();
    let (kind_start, group_start) = (start(kind.kind, 2), start(kind.group, 1));
    for (number, case) in chosen.iter_mut().enumerate() {
        let version = kind.version.trim_start_matches("v1");
        case.name = format!("{kind_start}{group_start}{version}-{number:05}");
        assign_unique_name(case);
    }
    Ok(chosen)
}

fn cases_for_base(
    kind: ComparedKind,
    shape: ValueType,
    base: &Arc<CorpusObject>,
    pool: &corpus::ValuePool,
) -> Vec<ApiCase> {
    let case = |verb, from, mutation: &Mutation, field_validation| ApiCase {
        kind,
        name: String::new(),
        base: base.clone(),
        verb,
        initial_status: from,
        mutation: mutation.clone(),
        field_validation,
    };
    let mut all = Vec::new();
    let mut whole = mutations(&DocumentPath::root(), shape, &base.object, pool);
    // The main resource drops every status. That is one case, not hundreds.
    whole.retain(|mutation| !mutation.field.starts_with("status.") && !mutation.field.starts_with("status["));
    whole.extend(generated_names());
    whole.push(Mutation { class: UNCHANGED, field: base.name().to_owned(), edits: Vec::new() });
    let befores: Vec<Option<usize>> = [None].into_iter().chain((0..base.statuses.len()).map(Some)).collect();
    for mutation in &whole {
        for &field_validation in field_validations(mutation) {
            all.push(case(WriteVerb::Create, None, mutation, field_validation));
            all.extend(befores.iter().map(|from| case(WriteVerb::Update, *from, mutation, field_validation)));
        }
    }
    let unconditional = Mutation {
        class: "missing",
        field: "metadata.resourceVersion".to_owned(),
        edits: vec![(DocumentPath::root().key("metadata").key("resourceVersion"), None)],
    };
    all.push(case(WriteVerb::Update, None, &unconditional, UnknownFieldPolicy::Unset));
    let ValueType::Object(number) = shape else { return all };
    let Some(field) = table().object(number).field("status").filter(|_| !base.statuses.is_empty()) else { return all };
    let path = DocumentPath::root().key("status");
    for (to, status) in base.statuses.iter().enumerate() {
        let plain = (path.clone(), Some(status.clone()));
        for from in &befores {
            let transition = Mutation { class: "transition", field: "status".to_owned(), edits: vec![plain.clone()] };
            all.push(case(WriteVerb::Status, *from, &transition, UnknownFieldPolicy::Unset));
            for mut mutation in mutations(&path, field.value_type, status, pool) {
                mutation.edits.insert(0, plain.clone());
                // From no status, and from the status that the mutated one is derived from.
                if from.is_none() || *from == Some(to) {
                    all.push(case(WriteVerb::Status, *from, &mutation, UnknownFieldPolicy::Unset));
                }
            }
        }
    }
    all
}

/// Unknown and duplicate fields are tested with every `fieldValidation`.
fn field_validations(mutation: &Mutation) -> &'static [UnknownFieldPolicy] {
    match mutation.class {
        "unknown field" | "duplicate field" => {
            &[UnknownFieldPolicy::Strict, UnknownFieldPolicy::Unset, UnknownFieldPolicy::Ignore]
        }
        _ => &[UnknownFieldPolicy::Unset],
    }
}

/// A name that the server generates.
fn generated_names() -> Vec<Mutation> {
    let metadata = DocumentPath::root().key("metadata");
    let prefixes = [json!("made-"), json!("Made_"), json!("m".repeat(300)), json!("m".repeat(60)), json!("-")];
    let edits = |prefix: Value| vec![(metadata.key("name"), None), (metadata.key("generateName"), Some(prefix))];
    let mutation =
        |prefix| Mutation { class: "generated name", field: "metadata.generateName".to_owned(), edits: edits(prefix) };
    prefixes.into_iter().map(mutation).collect()
}

/// If the mutation is a new name, it must be unique.
fn assign_unique_name(case: &mut ApiCase) {
    if case.mutation.field != "metadata.name" {
        return;
    }
    for (_, value) in &mut case.mutation.edits {
        if let Some(Value::String(text)) = value
            && !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            let kept = text.len().saturating_sub(case.name.len() + 1);
            *text = format!("{}-{}", &text[..kept.max(1)], case.name);
        }
    }
}

/// Cases by verb, class and field.
type CaseGroups = BTreeMap<(WriteVerb, &'static str, String), Vec<ApiCase>>;

/// Takes turns between (verb, class, field), so that each is tested before any is tested again.
fn choose(candidates: Vec<ApiCase>, count: usize, random: &Random) -> Vec<ApiCase> {
    let mut groups: [CaseGroups; 2] = Default::default();
    for case in candidates {
        let in_template =
            case.mutation.field.contains("template.spec.") || case.mutation.field.contains("template.metadata.");
        let group = groups[usize::from(in_template)]
            .entry((case.verb, case.mutation.class, case.mutation.field.clone()))
            .or_default();
        group.push(case);
    }
    let [own, template] = groups.map(|groups| round_robin(groups.into_values().collect(), random));
    let for_template = ((count as f64 * TEMPLATE_SHARE) as usize).min(template.len());
    let for_own = (count - for_template).min(own.len());
    let mut chosen: Vec<ApiCase> = own.into_iter().take(for_own).collect();
    chosen.extend(template.into_iter().take(count - for_own));
    chosen
}

/// One case of each group in random order, then another of each, and so on.
fn round_robin(groups: Vec<Vec<ApiCase>>, random: &Random) -> Vec<ApiCase> {
    let mut ordered: Vec<(usize, u64, ApiCase)> = Vec::new();
    for mut group in groups {
        let mut turn = 0;
        while !group.is_empty() {
            let case = group.swap_remove(random.below(group.len() as u64) as usize);
            ordered.push((turn, random.next_u64(), case));
            turn += 1;
        }
    }
    ordered.sort_by_key(|(turn, draw, case)| (case.mutation.class != UNCHANGED, *turn, *draw));
    ordered.into_iter().map(|(_, _, case)| case).collect()
}

/// The number of different fields that the cases change.
pub fn fields_count(cases: &[ApiCase]) -> usize {
    cases.iter().map(|case| &case.mutation.field).collect::<BTreeSet<_>>().len()
}
