//! Output of commands that write files: the reader of the output can go away, and the work goes on.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::OnceLock;

use tensornoodl_data::Model;

/// The first failure to write to standard output.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Standard output of a command whose results are files. Writing never fails: after the first failure everything is
/// discarded, and `finish` reports the failure when the files are written.
pub struct Output<W>(W);

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
        self.attempt(|out| out.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(W::flush);
        Ok(())
    }
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

/// Returns text of somebody else as a terminal may show it: control characters, which could change its title or its
/// colors, and characters that reverse the direction of text are escaped, such as `\u{1b}`.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    match text.contains(is_harmful) {
        false => text.into(),
        true => {
            let escaped = |c: char| if is_harmful(c) { c.escape_default().to_string() } else { c.into() };
            text.chars().map(escaped).collect()
        }
    }
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
