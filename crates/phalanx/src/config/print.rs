//! The file that `phalanx config` prints.

use std::fmt::Write;

use crate::config::{HEADER, settings};

const INTRODUCTION: &str = "\
# Configuration of phalanx up, run, scheduler, controllers and nodes (option --config FILE). Each command reads
# the settings that concern it. Every setting has its default here, and a file may leave out any of them.
# Options on the command line take precedence over the file. Durations are written like 90s, 5m or 1h30m.
";

/// The configuration with every setting at its default, for people to edit.
pub fn default_file() -> String {
    let mut file = INTRODUCTION.to_owned();
    for (field, value) in HEADER {
        line(&mut file, &format!("{field}: {value}"));
    }
    let mut section = "";
    for setting in settings() {
        if setting.section != section {
            section = setting.section;
            line(&mut file, &format!("\n{section}:"));
        }
        for text in setting.doc {
            line(&mut file, &format!("  # {}", text.trim()));
        }
        line(&mut file, &format!("  # Values: {}.", setting.values));
        match &setting.default {
            Some(value) if value.starts_with('\n') => line(&mut file, &format!("  {}:{value}", setting.name)),
            Some(value) => line(&mut file, &format!("  {}: {value}", setting.name)),
            None => line(&mut file, &format!("  # {}:", setting.name)),
        }
    }
    file
}

pub fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a String can always grow");
}
