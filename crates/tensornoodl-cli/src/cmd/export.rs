//! `noodl export`: a model as CSV or NPZ.

use std::io::{self, Cursor, Write};
use std::path::PathBuf;

use anyhow::anyhow;
use ndarray::{Array1, Array2};
use ndarray_npy::NpzWriter;
use tensornoodl::{Error, Factors, Sparse};
use tensornoodl_data::{Model, files};

const EXAMPLES: &str = "\
Examples:
  noodl export mail.safetensors -o mail.csv      a line for each number, with its labels
  noodl export mail.safetensors -o mail.npz      for NumPy: patterns (m x n), rows_*, cols_*, card (JSON as bytes)";

/// Write the numbers of a model for other programs; the end of the file's name says how.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    /// A model file.
    model: PathBuf,
    /// The file to write, .csv or .npz.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    files::check(&args.output)?;
    let model = Model::load(&args.model)?;
    let bytes = match args.output.extension().and_then(|end| end.to_str()) {
        Some("csv") => csv(&model)?,
        Some("npz") => npz(&model)?,
        other => {
            let (name, value) =
                ("output", other.map_or("a name without end".into(), |end| format!(".{end}")));
            return Err(Error::Parameter { name, value, rule: "a .csv or .npz file".into() }.into());
        }
    };
    files::write(&args.output, bytes)?;
    writeln!(io::stdout().lock(), "written to {}", args.output.display())?;
    Ok(())
}

/// Step, pattern, index and value.
type Number = (usize, usize, u32, f64);

/// Of all factors.
fn numbers<'m>(
    model: &'m Model,
    of: impl Fn(&'m Factors) -> &'m Sparse + 'm,
) -> impl Iterator<Item = Number> + 'm {
    model.factors.iter().enumerate().flat_map(move |(step, factors)| {
        of(factors).columns().enumerate().flat_map(move |(pattern, column)| {
            column.iter().map(move |&(index, value)| (step, pattern, index, value))
        })
    })
}

fn csv(model: &Model) -> anyhow::Result<Vec<u8>> {
    let (card, dictionary) = (&model.card, model.learner.dictionary());
    let mut text = csv::Writer::from_writer(Vec::new());
    text.write_record(["of", "step", "pattern", "label", "value"])?;
    for pattern in 0..dictionary.patterns() {
        for (value, label) in dictionary.pattern(pattern).iter().zip(&card.features) {
            text.write_record(["pattern", "", &(pattern + 1).to_string(), label, &value.to_string()])?;
        }
    }
    let rows = numbers(model, |factors| &factors.rows).map(|number| ("row", number, &card.rows));
    let cols = numbers(model, |factors| &factors.cols).map(|number| ("col", number, &card.cols));
    for (of, (step, pattern, index, value), labels) in rows.chain(cols) {
        let (pattern, value) = ((pattern + 1).to_string(), value.to_string());
        text.write_record([of, &card.steps[step], &pattern, &labels[index as usize], &value])?;
    }
    text.into_inner().map_err(|error| anyhow!("{error}"))
}

fn npz(model: &Model) -> anyhow::Result<Vec<u8>> {
    let dictionary = model.learner.dictionary();
    let mut bytes = Cursor::new(Vec::new());
    let mut file = NpzWriter::new_compressed(&mut bytes);
    let shape = (dictionary.patterns(), dictionary.features());
    file.add_array("patterns", &Array2::from_shape_vec(shape, dictionary.values().to_vec())?)?;
    for (name, list) in [
        ("rows", numbers(model, |factors| &factors.rows).collect::<Vec<_>>()),
        ("cols", numbers(model, |factors| &factors.cols).collect()),
    ] {
        let whole = |of: &dyn Fn(&Number) -> usize| -> Array1<i64> {
            list.iter().map(|number| of(number) as i64).collect()
        };
        file.add_array(format!("{name}_step"), &whole(&|number| number.0))?;
        file.add_array(format!("{name}_pattern"), &whole(&|number| number.1))?;
        file.add_array(format!("{name}_index"), &whole(&|number| number.2 as usize))?;
        file.add_array(
            format!("{name}_value"),
            &list.iter().map(|number| number.3).collect::<Array1<f64>>(),
        )?;
    }
    file.add_array("card", &Array1::from(serde_json::to_vec(&model.card)?))?;
    file.finish()?;
    Ok(bytes.into_inner())
}
