//! Output of commands that write files: the reader of the output can go away, and the work goes on.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use tensornoodl::Stop;
use tensornoodl_data::Model;

/// The first failure to write to standard output.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// The flag of a run that can be stopped.
static STOP: OnceLock<Stop> = OnceLock::new();

/// As many bytes as fit into a pipe that has room at all, on every system.
const PIECE: usize = 512;

/// Standard output of a command whose results are files. Writing never fails: after the first failure everything is
/// discarded, and `finish` reports the failure when the files are written. A reader that does not read holds up the
/// command until it is stopped, and not longer.
pub struct Output<W>(W);

/// Ends the waiting for the reader of standard output when `stop` is set.
pub(crate) fn end_with(stop: &Stop) {
    let _ = STOP.set(stop.clone());
}

/// Returns standard output.
pub fn stdout() -> Output<io::Stdout> {
    Output(io::stdout())
}

/// Returns standard output for text with styles, which only a terminal gets.
pub fn styled() -> Output<anstream::AutoStream<io::Stdout>> {
    Output(anstream::stdout())
}

impl<W: Write> Output<W> {
    fn attempt(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        if FAILURE.get().is_none()
            && let Err(error) = write(&mut self.0)
        {
            let _ = FAILURE.set(error);
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match STOP.get() {
            None => self.attempt(|out| out.write_all(bytes)),
            Some(stop) => bytes.chunks(PIECE).for_each(|piece| {
                self.attempt(|out| {
                    wait_for_reader(stop)?;
                    out.write_all(piece)?;
                    out.flush()
                });
            }),
        }
        Ok(bytes.len())
    }

    /// Writes the text at once instead of its parts one by one.
    fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(W::flush);
        Ok(())
    }
}

/// Waits until standard output takes a [`PIECE`].
///
/// # Errors
/// If it does not soon after the run was stopped.
#[cfg(unix)]
fn wait_for_reader(stop: &Stop) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    let pause = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        let stopped = stop.is_set();
        match poll(&mut [PollFd::new(&out, PollFlags::OUT)], Some(&pause)) {
            Ok(0) if stopped => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "nobody reads it"));
            }
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            // Writing says what is wrong.
            _ => return Ok(()),
        }
    }
}

#[cfg(not(unix))]
fn wait_for_reader(_stop: &Stop) -> io::Result<()> {
    Ok(())
}

/// Ends the output of a command that has done its work.
///
/// # Errors
/// The first failure to write, unless the reader of a pipe has ended (`noodl ... | head`).
pub(crate) fn finish() -> io::Result<()> {
    stdout().flush()?;
    match FAILURE.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(io::Error::new(error.kind(), error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr for the user. A failure to write is ignored, because the note is not the result.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "noodl: {}", plain(text));
}

/// Whether a character does not belong on a terminal: control characters, which could change its title or its colors, and
/// characters that reverse the direction of text.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns text of somebody else as a terminal may show it: harmful characters are escaped, such as `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    match text.contains(is_harmful) {
        false => text.into(),
        true => {
            let escaped = |c: char| if is_harmful(c) { c.escape_default().to_string() } else { c.into() };
            text.chars().map(escaped).collect()
        }
    }
}

/// Returns JSON as a line that a terminal may show: harmful characters are escaped as JSON does.
pub fn json(value: &serde_json::Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        match is_harmful(c) {
            true => line += &format!("\\u{:04x}", u32::from(c)),
            false => line.push(c),
        }
    }
    line
}

/// Makes all labels of a model [`plain`], for a model that is only shown.
pub fn make_plain(model: &mut Model) {
    let card = &mut model.card;
    let lists = [
        &mut card.features,
        &mut card.rows,
        &mut card.cols,
        &mut card.steps,
        &mut card.row_groups,
        &mut card.col_groups,
    ];
    for label in lists.into_iter().flatten() {
        if let Cow::Owned(escaped) = plain(label) {
            *label = escaped;
        }
    }
}

/// Returns a text as a cell of CSV. Spreadsheets run a cell that begins with = + - @ or a control character as a formula;
/// such a text gets an apostrophe before it, unless it is a number.
pub fn cell(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}").into() } else { text.into() }
}
