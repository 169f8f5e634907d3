//! The README's picture: two runs on a terminal, drawn as they look at their end.

mod terminal; // what a terminal shows of a program's output

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use terminal::{Cell, TerminalScreen};

/// The picture, from the root of the repository.
const FILE: &str = "docs/images/run.svg";
/// The commands that are run.
const COMMANDS: [&str; 2] = ["run examples/training.yaml", "run examples/too-large.yaml"];
/// The terminal's width.
const COLUMNS: u16 = 100;

/// Options of `cargo xtask picture`.
#[derive(clap::Args)]
pub struct Args {
    /// The phalanx program
    #[arg(long)]
    phalanx: PathBuf,
    /// Only compares the texts of the picture with the output; seconds may differ
    #[arg(long)]
    check: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let root = crate::repository_root()?;
    let phalanx = args.phalanx.canonicalize().with_context(|| args.phalanx.display().to_string())?;
    let mut lines = Vec::new();
    for command in COMMANDS {
        lines.push(PictureLine::Command(format!("$ phalanx {command}")));
        lines.extend(run_on_terminal(&phalanx, command, &root)?.into_iter().map(PictureLine::Output));
    }
    let picture = render_svg(&lines);
    let file = root.join(FILE);
    if !args.check {
        std::fs::write(&file, picture)?;
        println!("picture: {FILE} has {} lines", lines.len());
        return Ok(());
    }
    let (is, should) = (texts(&std::fs::read_to_string(&file)?), texts(&picture));
    for (is, should) in is.iter().zip(&should) {
        anyhow::ensure!(
            is == should,
            "{FILE} shows\n  {is}\nand the program prints\n  {should}\nrun `cargo xtask picture`"
        );
    }
    anyhow::ensure!(is.len() == should.len(), "{FILE} has {} lines, the program prints {}", is.len(), should.len());
    println!("picture: {FILE} shows what the program prints");
    Ok(())
}

/// A line of the picture.
enum PictureLine {
    Command(String),
    Output(Vec<Cell>),
}

/// The screen when `phalanx ARGUMENTS` has ended.
fn run_on_terminal(phalanx: &Path, arguments: &str, folder: &Path) -> anyhow::Result<Vec<Vec<Cell>>> {
    let terminal = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::pty::grantpt(&terminal)?;
    rustix::pty::unlockpt(&terminal)?;
    let size = Winsize { ws_row: 50, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal, size)?;
    let name = rustix::pty::ptsname(&terminal, Vec::new())?.into_string()?;
    // Otherwise it becomes the controlling terminal of a session leader, which this process is in CI, and ends it when
    // it closes.
    let not_ours = rustix::fs::OFlags::NOCTTY.bits() as i32;
    let inside = File::options().read(true).write(true).custom_flags(not_ours).open(name)?;
    let mut child = Command::new(phalanx)
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .env("TERM", "xterm-256color")
        .env_remove("NO_COLOR")
        .env_remove("PHALANX_LOG")
        .stdin(Stdio::null())
        .stdout(inside.try_clone()?)
        .stderr(inside)
        .spawn()?;
    let mut written = Vec::new();
    // Reading fails once the program has ended, because it is the last process with the terminal open.
    let mut outside = File::from(terminal);
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = outside.read(&mut bytes) {
        written.extend_from_slice(&bytes[..count]);
    }
    child.wait()?;
    let mut screen = TerminalScreen::new(COLUMNS.into());
    screen.write(&String::from_utf8(written)?);
    Ok(screen.into_lines())
}

/// An SVG of a terminal with these lines.
fn render_svg(lines: &[PictureLine]) -> String {
    let height = 56 + 20 * lines.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"880\" height=\"{height}\" viewBox=\"0 0 880 {height}\" role=\"img\" \
         aria-label=\"phalanx run in a terminal\">\n\
         <rect width=\"880\" height=\"{height}\" rx=\"10\" fill=\"#1a1b26\"/>\n\
         <circle cx=\"22\" cy=\"18\" r=\"6\" fill=\"#f7768e\"/>\n\
         <circle cx=\"42\" cy=\"18\" r=\"6\" fill=\"#e0af68\"/>\n\
         <circle cx=\"62\" cy=\"18\" r=\"6\" fill=\"#9ece6a\"/>\n\
         <g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace\" font-size=\"13.5\" \
         xml:space=\"preserve\">\n"
    );
    for (row, line) in lines.iter().enumerate() {
        let y = 48 + 20 * row;
        let (colour, text) = match line {
            PictureLine::Command(text) => ("#9ece6a\" font-weight=\"bold", escaped(text)),
            PictureLine::Output(cells) => ("#c0caf5", spans(cells)),
        };
        // Writing to a string cannot fail.
        _ = writeln!(svg, "<text x=\"18\" y=\"{y}\" fill=\"{colour}\">{text}</text>");
    }
    svg + "</g></svg>\n"
}

/// The cells of a line, with green text in a span of its own.
fn spans(cells: &[Cell]) -> String {
    let run = |cells: &[Cell]| {
        let text: String = cells.iter().map(|cell| cell.character).collect();
        match cells.first() {
            Some(cell) if cell.is_green => format!("<tspan fill=\"#9ece6a\">{}</tspan>", escaped(&text)),
            _ => escaped(&text),
        }
    };
    cells.chunk_by(|a, b| a.is_green == b.is_green).map(run).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The texts of an SVG, without the durations, which differ from run to run.
fn texts(svg: &str) -> Vec<String> {
    let lines = svg.lines().filter(|line| line.starts_with("<text "));
    let plain = lines.map(|line| {
        let mut is_tag = false;
        let outside = |sign: &char| {
            let was_tag = is_tag || *sign == '<';
            is_tag = was_tag && *sign != '>';
            !was_tag
        };
        line.chars().filter(outside).collect::<String>()
    });
    let without_seconds = |line: String| match line.strip_suffix(" s").and_then(|rest| rest.rsplit_once(" in ")) {
        Some((what, seconds)) if seconds.parse::<f64>().is_ok() => format!("{what} in … s"),
        _ => line,
    };
    plain.map(without_seconds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_a_picture_are_those_of_the_terminal() {
        let mut screen = TerminalScreen::new(20);
        screen.write("[\u{1b}[32m██\u{1b}[0m░] a<b\r\n1 done in 3.4 s\r\n");
        let output = screen.into_lines().into_iter().map(PictureLine::Output);
        let lines: Vec<PictureLine> =
            [PictureLine::Command("$ phalanx run".to_owned())].into_iter().chain(output).collect();
        let svg = render_svg(&lines);
        assert_eq!(texts(&svg), ["$ phalanx run", "[██░] a&lt;b", "1 done in … s"]);
        assert!(svg.contains("[<tspan fill=\"#9ece6a\">██</tspan>░]"), "{svg}");
    }
}
