//! A model on the command line: reads its file, and says what a user should know about the file.

use std::io::{self, Write};
use std::path::Path;

use tensornoodl_data::{Error, Model};

use crate::output::{self, plain};

/// Reads a model, and writes its note to stderr.
///
/// # Errors
/// As [`Model::load`].
pub fn load(path: &Path) -> Result<Model, Error> {
    let model = Model::load(path)?;
    write_note(&model, path);
    Ok(model)
}

/// Writes what a user should know about a model: the stability of its patterns, steps in which something changed, patterns
/// that ended, and warnings.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_verdict(out: &mut impl Write, model: &Model) -> io::Result<()> {
    if let Some(stability) = model.evidence.as_ref().and_then(|evidence| evidence.stability.as_ref()) {
        writeln!(out, "{}", stability.sentence())?;
    }
    for sentence in model.news() {
        writeln!(out, "{}", plain(&sentence))?;
    }
    for warning in model.warnings() {
        writeln!(out, "{}", plain(&format!("warning: {}. {}.", warning.text, warning.remedy)))?;
    }
    Ok(())
}

/// Writes the note about the file of a model to stderr, if there is one.
pub fn write_note(model: &Model, path: &Path) {
    if let Some(note) = model.note() {
        output::note(&format!("{}: {note}", path.display()));
    }
}
