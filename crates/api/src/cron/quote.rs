//! Quoted text in Go's format, for errors that repeat their input.

use std::fmt::Write as _;

/// The format of errors about numbers: printable characters are not escaped.
pub(super) fn text(given: &str) -> String {
    quoted(given, |c, out| match c {
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        c if c.is_ascii_control() => bytes(c, out),
        // Characters that Rust escapes in debug output are not printable.
        c if c != '\'' && c.escape_debug().len() > 1 => escaped(u32::from(c), out),
        c => out.push(c),
    })
}

/// The format of errors about durations: all characters beyond ASCII are escaped as bytes.
pub(super) fn span(given: &str) -> String {
    quoted(given, |c, out| if c < ' ' || !c.is_ascii() { bytes(c, out) } else { out.push(c) })
}

fn quoted(given: &str, mut write: impl FnMut(char, &mut String)) -> String {
    let mut out = String::from('"');
    for c in given.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c => write(c, &mut out),
        }
    }
    out.push('"');
    out
}

fn bytes(c: char, out: &mut String) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        write!(out, "\\x{byte:02x}").expect("writing to a String does not fail");
    }
}

fn escaped(code: u32, out: &mut String) {
    let written = if code < 0x1_0000 { write!(out, "\\u{code:04x}") } else { write!(out, "\\U{code:08x}") };
    written.expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests {
    use super::{span, text};

    #[test]
    fn unprintable_characters_are_escaped_as_in_go() {
        assert_eq!(text("a\"\\é'\0\t\n\u{a0}\u{7f}"), r#""a\"\\é'\x00\t\n\u00a0\x7f""#);
        assert_eq!(span(" 3µs\t\"\u{7f}"), "\" 3\\xc2\\xb5s\\x09\\\"\u{7f}\"");
    }
}
