//! Which questions are asked: every mutation of every base is a candidate, a seed chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use api::Random;
use api::schema::{Shape, table};
use serde_json::{Value, json};

use super::corpus::{self, Base};
use super::kinds::Kind;
use super::mutate::{Mutation, mutations};
use super::place::Place;

/// What is asked last, and judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    Create,
    Update,
    Status,
}

impl Verb {
    /// As reports and expected-differences.yaml write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Status => "status",
        }
    }
}

/// What the server is asked to make of fields that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing is said: the server warns.
    Unsaid,
    Strict,
    Ignore,
}

impl FieldValidation {
    /// The query of a write.
    pub fn query(self) -> &'static str {
        match self {
            FieldValidation::Unsaid => "",
            FieldValidation::Strict => "?fieldValidation=Strict",
            FieldValidation::Ignore => "?fieldValidation=Ignore",
        }
    }
}

/// One question to both servers.
#[derive(Clone, Debug)]
pub struct Case {
    pub kind: &'static Kind,
    /// The object's name; no other case has it.
    pub name: String,
    pub base: Arc<Base>,
    pub verb: Verb,
    /// The status that the object is given before the question.
    pub from: Option<usize>,
    pub mutation: Mutation,
    pub field_validation: FieldValidation,
}

/// The class of a case that changes nothing: the real server accepts it, or the corpus is wrong.
pub const AS_IT_IS: &str = "as it is";

/// How much of a kind's cases goes to its pod template, which the kind Pod asks about, too.
const TEMPLATE_SHARE: f64 = 0.3;

/// The cases of a kind: `count` of them as `seed` chooses, or all where `count` is `None`.
pub fn cases(root: &Path, kind: &'static Kind, seed: u64, count: Option<usize>) -> anyhow::Result<Vec<Case>> {
    let shape = table().kind(kind.group, kind.version, kind.kind).context("the schema file has every kind")?;
    let bases = corpus::read(root, kind)?;
    let pool = corpus::pool(shape, &bases);
    let mut candidates = Vec::new();
    for base in bases.into_iter().map(Arc::new) {
        candidates.extend(of_base(kind, shape, &base, &pool));
    }
    let mut chosen = match count {
        Some(count) => choose(candidates, count, &Random::seeded(seed)),
        None => candidates,
    };
    // Some objects stay when their case is done, so that the names of other kinds in the same store must differ.
    let start = |text: &str, length| text.to_lowercase().chars().take(length).collect::<String>();
    let (kind_start, group_start) = (start(kind.kind, 2), start(kind.group, 1));
    for (number, case) in chosen.iter_mut().enumerate() {
        let version = kind.version.trim_start_matches("v1");
        case.name = format!("{kind_start}{group_start}{version}-{number:05}");
        give_a_name_of_its_own(case);
    }
    Ok(chosen)
}

fn of_base(kind: &'static Kind, shape: Shape, base: &Arc<Base>, pool: &corpus::Pool) -> Vec<Case> {
    let case = |verb, from, mutation: &Mutation, field_validation| Case {
        kind,
        name: String::new(),
        base: base.clone(),
        verb,
        from,
        mutation: mutation.clone(),
        field_validation,
    };
    let mut all = Vec::new();
    let mut whole = mutations(&Place::root(), shape, &base.object, pool);
    // Of a status on the main resource nothing is kept; that is one question, not hundreds.
    whole.retain(|mutation| !mutation.field.starts_with("status.") && !mutation.field.starts_with("status["));
    whole.extend(generated_names());
    whole.push(Mutation { class: AS_IT_IS, field: base.name().to_owned(), edits: Vec::new() });
    let befores: Vec<Option<usize>> = [None].into_iter().chain((0..base.statuses.len()).map(Some)).collect();
    for mutation in &whole {
        for &field_validation in ways(mutation) {
            all.push(case(Verb::Create, None, mutation, field_validation));
            all.extend(befores.iter().map(|from| case(Verb::Update, *from, mutation, field_validation)));
        }
    }
    let unconditional = Mutation {
        class: "missing",
        field: "metadata.resourceVersion".to_owned(),
        edits: vec![(Place::root().key("metadata").key("resourceVersion"), None)],
    };
    all.push(case(Verb::Update, None, &unconditional, FieldValidation::Unsaid));
    let Shape::Object(number) = shape else { return all };
    let Some(field) = table().object(number).field("status").filter(|_| !base.statuses.is_empty()) else { return all };
    let place = Place::root().key("status");
    for (to, status) in base.statuses.iter().enumerate() {
        let plain = (place.clone(), Some(status.clone()));
        for from in &befores {
            let transition = Mutation { class: "transition", field: "status".to_owned(), edits: vec![plain.clone()] };
            all.push(case(Verb::Status, *from, &transition, FieldValidation::Unsaid));
            for mut mutation in mutations(&place, field.shape, status, pool) {
                mutation.edits.insert(0, plain.clone());
                // From nothing, and from the status that the mutated one comes from.
                if from.is_none() || *from == Some(to) {
                    all.push(case(Verb::Status, *from, &mutation, FieldValidation::Unsaid));
                }
            }
        }
    }
    all
}

/// Fields that no kind knows, and fields that stand there twice, are judged as the client asks.
fn ways(mutation: &Mutation) -> &'static [FieldValidation] {
    match mutation.class {
        "unknown field" | "duplicate field" => {
            &[FieldValidation::Strict, FieldValidation::Unsaid, FieldValidation::Ignore]
        }
        _ => &[FieldValidation::Unsaid],
    }
}

/// A name that the server makes up.
fn generated_names() -> Vec<Mutation> {
    let metadata = Place::root().key("metadata");
    let prefixes = [json!("made-"), json!("Made_"), json!("m".repeat(300)), json!("m".repeat(60)), json!("-")];
    let edits = |prefix: Value| vec![(metadata.key("name"), None), (metadata.key("generateName"), Some(prefix))];
    let mutation =
        |prefix| Mutation { class: "generated name", field: "metadata.generateName".to_owned(), edits: edits(prefix) };
    prefixes.into_iter().map(mutation).collect()
}

/// Where the mutation is another name, it must be nobody else's.
fn give_a_name_of_its_own(case: &mut Case) {
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
type Groups = BTreeMap<(Verb, &'static str, String), Vec<Case>>;

/// Takes turns between (verb, class, field), so that each is asked before any is asked again.
fn choose(candidates: Vec<Case>, count: usize, random: &Random) -> Vec<Case> {
    let mut groups: [Groups; 2] = Default::default();
    for case in candidates {
        let in_template =
            case.mutation.field.contains("template.spec.") || case.mutation.field.contains("template.metadata.");
        let group = groups[usize::from(in_template)]
            .entry((case.verb, case.mutation.class, case.mutation.field.clone()))
            .or_default();
        group.push(case);
    }
    let [own, template] = groups.map(|groups| turns(groups.into_values().collect(), random));
    let for_template = ((count as f64 * TEMPLATE_SHARE) as usize).min(template.len());
    let for_own = (count - for_template).min(own.len());
    let mut chosen: Vec<Case> = own.into_iter().take(for_own).collect();
    chosen.extend(template.into_iter().take(count - for_own));
    chosen
}

/// One of each group in random order, then another of each, and so on.
fn turns(groups: Vec<Vec<Case>>, random: &Random) -> Vec<Case> {
    let mut ordered: Vec<(usize, u64, Case)> = Vec::new();
    for mut group in groups {
        let mut turn = 0;
        while !group.is_empty() {
            let case = group.swap_remove(random.below(group.len() as u64) as usize);
            ordered.push((turn, random.next_u64(), case));
            turn += 1;
        }
    }
    ordered.sort_by_key(|(turn, draw, case)| (case.mutation.class != AS_IT_IS, *turn, *draw));
    ordered.into_iter().map(|(_, _, case)| case).collect()
}

/// How many different fields the cases touch.
pub fn fields_count(cases: &[Case]) -> usize {
    cases.iter().map(|case| &case.mutation.field).collect::<BTreeSet<_>>().len()
}
