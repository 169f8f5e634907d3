//! Splits a stream of chunks into lines.

use std::io::BufRead;

/// Keeps the unfinished line between chunks. Whole lines are passed on without a copy.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
}

impl LineSplitter {
    /// Calls `each` with every line that ends in `chunk`, without its newline. Empty lines are skipped.
    pub(crate) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(&[u8])) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let start = rest;
            let length = rest.skip_until(b'\n').expect("reading from memory does not fail");
            let Some(line) = start[..length].strip_suffix(b"\n") else {
                self.partial.extend_from_slice(start);
                return;
            };
            if self.partial.is_empty() {
                if !line.is_empty() {
                    each(line);
                }
            } else {
                self.partial.extend_from_slice(line);
                each(&self.partial);
                self.partial.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LineSplitter;

    #[test]
    fn lines_are_whole_for_any_chunks() {
        let text = b"one\ntwo\n\nthree\n";
        for size in 1..=text.len() {
            let (mut lines, mut out) = (LineSplitter::default(), Vec::new());
            for chunk in text.chunks(size) {
                lines.push(chunk, |line| out.push(String::from_utf8_lossy(line).into_owned()));
            }
            assert_eq!(out, ["one", "two", "three"], "chunks of {size}");
        }
    }
}
