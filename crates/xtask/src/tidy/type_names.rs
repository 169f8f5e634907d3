//! Names of types: nouns that say what the thing is, and each for at most two types of the workspace.

use std::collections::BTreeMap;

use syn::visit::Visit;

/// How many types may have one name.
const MAX_TYPES_PER_NAME: usize = 2;

/// Names that every crate may use for its own.
const SHARED_NAMES: &[&str] = &["Args", "Config", "Error", "Metrics", "Builder"];

/// Participles that do not end in `ed` or `ing`.
const IRREGULAR_PARTICIPLES: &[&str] = &[
    "Bound",
    "Built",
    "Chosen",
    "Done",
    "Drawn",
    "Found",
    "Given",
    "Gone",
    "Heard",
    "Held",
    "Kept",
    "Known",
    "Left",
    "Lost",
    "Made",
    "Meant",
    "Met",
    "Said",
    "Seen",
    "Sent",
    "Shown",
    "Spent",
    "Stood",
    "Taken",
    "Thought",
    "Told",
    "Understood",
    "Worn",
    "Written",
];

/// Adverbs that do not end in `ly`, pronouns and prepositions.
const OTHER_WORDS: &[&str] = &[
    "About", "After", "Again", "Alone", "Already", "Also", "Apart", "Aside", "Away", "Before", "Below", "Beside",
    "Between", "Each", "Else", "Every", "Here", "How", "Later", "Mine", "Never", "Nobody", "None", "Now", "Of",
    "Often", "Other", "Others", "Ours", "Side", "Since", "Somebody", "Soon", "Still", "That", "Theirs", "Then",
    "There", "These", "This", "Those", "Together", "Until", "What", "When", "Where", "Which", "Who", "Whoever",
    "Whose", "Why", "With", "Without", "Yet",
];

/// Nouns that look like participles or adverbs.
const NOUNS: &[&str] = &[
    "Anomaly",
    "Assembly",
    "Binding",
    "Building",
    "Family",
    "Feed",
    "Mapping",
    "Reply",
    "Ring",
    "Scheduling",
    "Seed",
    "Setting",
    "Speed",
    "String",
    "Supply",
    "Tally",
    "Training",
    "Warning",
];

/// Where types are defined, by name.
#[derive(Default)]
pub struct TypeNames {
    places: BTreeMap<String, Vec<String>>,
}

impl TypeNames {
    /// Collects the types of one file.
    pub fn read(&mut self, file: &str, parsed: &syn::File) {
        TypeVisitor { file, names: self }.visit_file(parsed);
    }

    /// Names that are not nouns, and names of too many types.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (name, places) in &self.places {
            if let Some(reason) = bad_name(name) {
                findings.extend(places.iter().map(|place| format!("{place}: type {name} is {reason}; name the thing")));
            }
            if places.len() > MAX_TYPES_PER_NAME && !SHARED_NAMES.contains(&name.as_str()) {
                let places = places.join(", ");
                findings.push(format!("type {name} stands for more than {MAX_TYPES_PER_NAME} types: {places}"));
            }
        }
        findings
    }

    fn add(&mut self, file: &str, name: &syn::Ident) {
        let place = format!("{file}:{}", name.span().start().line);
        self.places.entry(name.to_string()).or_default().push(place);
    }
}

/// Why a type may not have this name.
fn bad_name(name: &str) -> Option<&'static str> {
    let is_one_word = name.chars().filter(char::is_ascii_uppercase).count() == 1;
    if !is_one_word || NOUNS.contains(&name) {
        return None;
    }
    if IRREGULAR_PARTICIPLES.contains(&name) || name.ends_with("ed") || name.ends_with("ing") {
        return Some("a bare participle");
    }
    let is_adverb = name.ends_with("ly") || OTHER_WORDS.contains(&name);
    is_adverb.then_some("an adverb, a pronoun or a preposition")
}

struct TypeVisitor<'a> {
    file: &'a str,
    names: &'a mut TypeNames,
}

impl<'ast> Visit<'ast> for TypeVisitor<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.names.add(self.file, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.names.add(self.file, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.names.add(self.file, &item.ident);
        syn::visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.names.add(self.file, &item.ident);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn findings(code: &str) -> Vec<String> {
        let mut names = TypeNames::default();
        names.read("a.rs", &syn::parse_file(code).unwrap());
        names.findings()
    }

    #[test]
    fn a_participle_an_adverb_and_a_pronoun_are_not_type_names() {
        for code in [
            "struct Told;",
            "enum Waiting {}",
            "trait Apart {}",
            "type Who = u8;",
            "fn f() { struct Asked; }",
            "struct Early;",
            "enum Lately {}",
        ] {
            assert_eq!(findings(code).len(), 1, "{code}");
        }
        for code in [
            "struct Placement;",
            "struct CachedKind;",
            "struct Binding;",
            "struct Seed;",
            "enum Family {}",
            "struct Reply;",
        ] {
            assert!(findings(code).is_empty(), "{code}");
        }
    }

    #[test]
    fn a_name_may_be_used_for_two_types_but_not_for_three() {
        let many =
            |name: &str, count: usize| (0..count).map(|n| format!("mod m{n} {{ struct {name}; }}")).collect::<String>();
        assert!(findings(&many("State", 2)).is_empty());
        assert_eq!(findings(&many("State", 3)), ["type State stands for more than 2 types: a.rs:1, a.rs:1, a.rs:1"]);
        assert!(findings(&many("Config", 9)).is_empty());
    }
}
