//! `noodl check`: does the data fit the model, and how many patterns does it have?

use std::path::{Path, PathBuf};

use tensornoodl::ModelKind;
use tensornoodl::discover::search_bytes;
use tensornoodl_cli::assess::{Options, Source};
use tensornoodl_cli::memory;
use tensornoodl_cli::output::{note, plain};
use tensornoodl_cli::program::wrong;
use tensornoodl_cli::table::TableArgs;
use tensornoodl_data::{ModelChoice, Query, Recipe, check_recipe, files, model_name, table};

const EXAMPLES: &str = "\
Examples:
  noodl check mail.csv --feature 'month(time)' --row from --col to --recipe log2,scale,center
  noodl check mail.csv --feature 'month(time)' --row from --col to --evidence
  noodl check mail.tns --feature 3 --row 1 --col 2
  noodl check tensor.npy --patterns 4 --patterns-out patterns.csv

With the exact model and --step, only the tensor of the first step is checked, because noodl learn looks for its first patterns \
there. With the counts model, the events of all steps are added up by place.

The counts model takes the fewest patterns that no larger number significantly exceeds in predicting hidden events. --evidence \
shows what each further pattern gains, with its standard error.

Exact model: the bounds of the theory are orders of magnitude; their constants are those of the paper's experiments. A pattern is accepted \
if its fibers have more in common than those of any pattern that the search finds in as many random fibers. If the data follows the \
model only roughly, the number of patterns is a judgement: --evidence shows how much each further pattern explains of fibers that it \
was not found in, and whether searches in other parts of the data find the same patterns.";

/// Measure what the model needs of a table or an array: a verdict on each, and what to do.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(crate) struct Args {
    #[command(flatten)]
    table: TableArgs,
    /// Actions on the values of the tensor, in order: log2, sqrt, presence, scale, center, with commas
    /// between them.
    #[arg(long, default_value = "", hide_default_value = true)]
    recipe: Recipe,
    /// The model: counts for cells that count events, exact for the model of the paper, which needs values with Gaussian
    /// noise, or auto: counts if the cells count events, otherwise exact.
    #[arg(long, default_value = "auto", value_name = "auto|counts|exact")]
    model: ModelChoice,
    /// First index of the axes of an array, 0 or 1. It makes no difference: indices are labels.
    #[arg(long, default_value_t = 1, hide = true)]
    index_base: usize,
    #[command(flatten)]
    options: Options,
}

impl Args {
    pub(crate) fn threads(&self) -> Option<usize> {
        self.options.threads()
    }

    /// Reads the table and returns the tensor of its first step, or of all steps together for counts.
    fn load(&self, query: Query, kind: ModelKind) -> anyhow::Result<Source> {
        let events = match kind {
            ModelKind::Exact => table::read(self.table.path(), query)?,
            ModelKind::Counts => table::read(self.table.path(), Query { step: None, ..query })?,
        };
        if kind == ModelKind::Counts {
            events.check_counts(&self.table.name())?;
        }
        let bytes = 3.0 * events.bytes() + search_bytes(events.shape().features, events.fibers());
        self.table.note_stretch(&events, bytes);
        memory::check(bytes)?;
        let name = match &events.steps {
            Some(steps) => {
                format!("{}, step {} (the first of {})", self.table.name(), steps.names[0], events.steps())
            }
            None => self.table.name(),
        };
        let name = plain(&name).into_owned();
        let source = Source { tensor: self.recipe.apply(events.tensor(0)?)?, name, truth: None };
        source.check()?;
        Ok(source)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let inputs = args.table.inputs()?;
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    files::apart(&inputs, &args.options.outputs())?;
    args.options.check()?;
    if args.index_base > 1 {
        return Err(wrong("index_base", args.index_base, "0 or 1").into());
    }
    let query = args.table.query()?;
    let (kind, reason) = args.model.resolve(&query, &args.recipe);
    check_recipe(kind, &args.recipe)?;
    let source = args.load(query, kind)?;
    if !args.options.is_quiet() {
        note(&format!("the {} model is used, because {reason}", model_name(kind)));
    }
    match kind {
        ModelKind::Exact => args.options.run(&source),
        ModelKind::Counts => args.options.run_counts(&source),
    }
}
