//! What a terminal shows of a program's output: text, line ends, and the few control sequences of progress bars.

/// One cell of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its character.
    pub character: char,
    /// Whether it is green; other colours are not distinguished.
    pub is_green: bool,
}

/// A screen of a fixed width and any number of lines.
pub struct TerminalScreen {
    columns: usize,
    lines: Vec<Vec<Cell>>,
    row: usize,
    column: usize,
    is_green: bool,
}

impl TerminalScreen {
    /// An empty screen.
    pub fn new(columns: usize) -> TerminalScreen {
        TerminalScreen { columns, lines: vec![Vec::new()], row: 0, column: 0, is_green: false }
    }

    /// Processes the output of a program.
    pub fn write(&mut self, text: &str) {
        let mut signs = text.chars();
        while let Some(sign) = signs.next() {
            match sign {
                '\r' => self.column = 0,
                '\n' => self.go_to(self.row + 1),
                '\u{1b}' => {
                    // `ESC [ parameters letter`; others are not used.
                    let sequence: String =
                        signs.by_ref().skip(1).take_while_inclusive(|sign| !sign.is_ascii_alphabetic());
                    self.control(&sequence);
                }
                sign => self.put(sign),
            }
        }
    }

    /// The lines without trailing spaces, and without empty lines at the end.
    pub fn into_lines(self) -> Vec<Vec<Cell>> {
        let mut lines = self.lines;
        for line in &mut lines {
            let end = line.iter().rposition(|cell| cell.character != ' ').map_or(0, |last| last + 1);
            line.truncate(end);
        }
        let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(end);
        lines
    }

    fn put(&mut self, sign: char) {
        if self.column == self.columns {
            self.column = 0;
            self.go_to(self.row + 1);
        }
        let line = &mut self.lines[self.row];
        if line.len() <= self.column {
            line.resize(self.column + 1, Cell { character: ' ', is_green: false });
        }
        line[self.column] = Cell { character: sign, is_green: self.is_green };
        self.column += 1;
    }

    fn go_to(&mut self, row: usize) {
        self.row = row;
        if self.lines.len() <= row {
            self.lines.resize(row + 1, Vec::new());
        }
    }

    fn control(&mut self, sequence: &str) {
        let Some(letter) = sequence.chars().last() else { return };
        let parameter = sequence.trim_end_matches(letter);
        let count = parameter.parse().unwrap_or(1);
        match letter {
            'A' => self.row = self.row.saturating_sub(count),
            'B' => self.go_to(self.row + count),
            'G' => self.column = count.saturating_sub(1),
            'K' if parameter == "2" => self.lines[self.row].clear(),
            'K' => self.lines[self.row].truncate(self.column),
            'J' => {
                self.lines[self.row].truncate(self.column);
                self.lines.truncate(self.row + 1);
            }
            'm' => self.is_green = parameter == "32",
            // Hiding the cursor and the like does not change the text.
            _ => {}
        }
    }
}

/// Up to and including the first item for which the test fails, unlike the standard library's.
trait TakeWhileInclusive: Iterator<Item = char> + Sized {
    fn take_while_inclusive(self, continues: impl Fn(&char) -> bool) -> String {
        let mut taken = String::new();
        for sign in self {
            taken.push(sign);
            if !continues(&sign) {
                break;
            }
        }
        taken
    }
}

impl<I: Iterator<Item = char>> TakeWhileInclusive for I {}

#[cfg(test)]
mod tests {
    use super::TerminalScreen;

    fn shown(columns: usize, text: &str) -> String {
        let mut screen = TerminalScreen::new(columns);
        screen.write(text);
        let lines = screen.into_lines();
        let text = |line: &Vec<super::Cell>| line.iter().map(|cell| cell.character).collect::<String>();
        lines.iter().map(text).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn lines_are_written_over_moved_and_wrapped_as_on_a_terminal() {
        assert_eq!(shown(10, "one\r\ntwo  \r\n\r\n"), "one|two");
        assert_eq!(shown(10, "waiting\rdone\u{1b}[K\r\n"), "done");
        assert_eq!(shown(10, "a\r\nb\u{1b}[1A\r\u{1b}[2KA\r\n\u{1b}[2KB"), "A|B");
        assert_eq!(shown(4, "abcdef"), "abcd|ef");
        assert_eq!(shown(4, "abcd\r\nef"), "abcd|ef", "a full line is not followed by an empty one");
        assert_eq!(shown(10, "\u{1b}[?25l\u{1b}[32mx\u{1b}[0my\u{1b}[J"), "xy");
    }
}
