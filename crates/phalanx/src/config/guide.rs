//! The tables of settings in docs/guides/configuration.md.

use crate::config::print::line;
use crate::config::settings;
use crate::config::settings::Setting;

const START: &str = "<!-- settings: generated -->\n";
const END: &str = "<!-- end of settings -->\n";

/// `UPDATE_GUIDES=1 cargo test -p phalanx the_guide_has_every_setting` writes the tables.
#[test]
fn the_guide_has_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/configuration.md");
    let guide = std::fs::read_to_string(path).expect("the guide can be read");
    let (before, rest) = guide.split_once(START).expect("the guide marks where the tables start");
    let (tables, after) = rest.split_once(END).expect("the guide marks where the tables end");
    let wanted = guide_tables();
    if std::env::var_os("UPDATE_GUIDES").is_some() {
        std::fs::write(path, format!("{before}{START}{wanted}{END}{after}")).expect("the guide can be written");
    } else {
        assert_eq!(tables, wanted, "UPDATE_GUIDES=1 cargo test -p phalanx the_guide_has_every_setting writes them");
    }
}

/// One table for each section, with details below it.
fn guide_tables() -> String {
    let mut guide = String::new();
    let mut details = String::new();
    let mut section = "";
    for setting in settings() {
        if setting.section != section {
            line(&mut guide, &std::mem::take(&mut details));
            section = setting.section;
            line(
                &mut guide,
                &format!("### {section}\n\n| setting | meaning | values | default |\n| --- | --- | --- | --- |"),
            );
            details.push('\n');
        }
        let (summary, rest) = summary_and_rest(&setting);
        let default = match setting.default.as_deref() {
            None => "none".to_owned(),
            Some(value) if value.starts_with('\n') => "`phalanx config` prints it".to_owned(),
            Some(value) => format!("`{value}`"),
        };
        line(&mut guide, &format!("| `{}` | {summary} | {} | {default} |", setting.path(), setting.values));
        if !rest.is_empty() {
            line(&mut details, &format!("- `{}`: {rest}", setting.path()));
        }
    }
    line(&mut guide, &details);
    guide
}

/// The first sentence without its full stop, and the others.
fn summary_and_rest(setting: &Setting) -> (String, String) {
    let text = setting.doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    match text.split_once(". ") {
        Some((summary, rest)) => (summary.to_owned(), rest.to_owned()),
        None => (text.trim_end_matches('.').to_owned(), String::new()),
    }
}
