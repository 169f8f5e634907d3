//! Writes to standard output and standard error. A reader that closed its end never causes a panic.
//!
//! The macros `print!`, `println!` and `eprintln!` of `main.rs` call these functions.

use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use api::Timestamp;
use serde_json::json;

/// Whether a result could not be written although its reader still exists, for example because a disk is full.
static RESULT_LOST: AtomicBool = AtomicBool::new(false);

/// Whether messages are JSON, like the log lines between them.
static JSON_MESSAGES: AtomicBool = AtomicBool::new(false);

/// Writes a part of the result.
pub fn result(text: Arguments<'_>) {
    let mut out = anstream::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        // `phalanx config | head -1`: the reader needs no more output.
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !RESULT_LOST.swap(true, Ordering::Relaxed) => {
            drop(out);
            message(format_args!("error: cannot write the result: {error}\n"));
        }
        _ => {}
    }
}

/// Writes progress or a problem. A message that cannot be written is lost.
pub fn message(text: Arguments<'_>) {
    let mut out = anstream::stderr().lock();
    let written = if JSON_MESSAGES.load(Ordering::Relaxed) {
        text.to_string().lines().try_for_each(|line| writeln!(out, "{}", json_line(line)))
    } else {
        out.write_fmt(text)
    };
    _ = written.and_then(|()| out.flush());
}

/// From now on every line of a message is a JSON object with the fields of a log line.
pub fn use_json_messages() {
    JSON_MESSAGES.store(true, Ordering::Relaxed);
}

/// Whether messages go to a person at a terminal.
pub fn is_interactive() -> bool {
    std::io::stderr().is_terminal() && !JSON_MESSAGES.load(Ordering::Relaxed)
}

/// Whether some of the result could not be written.
pub fn result_was_lost() -> bool {
    RESULT_LOST.load(Ordering::Relaxed)
}

fn json_line(line: &str) -> String {
    let prefixes = [("error: ", "ERROR"), ("warning: ", "WARN")];
    let found = prefixes.iter().find_map(|(prefix, level)| Some((line.strip_prefix(prefix)?, *level)));
    let (message, level) = found.unwrap_or((line, "INFO"));
    let timestamp = api::clock::rfc3339_micros(Timestamp::now());
    json!({"timestamp": timestamp, "level": level, "fields": {"message": message}, "target": "phalanx"}).to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_json_message_has_the_level_of_its_prefix() {
        for (line, level, message) in [
            ("stopping", "INFO", "stopping"),
            ("error: cannot start: \"x\"", "ERROR", "cannot start: \"x\""),
            ("warning: w", "WARN", "w"),
        ] {
            let parsed: serde_json::Value = serde_json::from_str(&json_line(line)).unwrap();
            assert_eq!((&parsed["level"], &parsed["fields"]["message"]), (&json!(level), &json!(message)));
        }
    }
}
