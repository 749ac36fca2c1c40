//! What `init` and `check` look at: a file, or a planted tensor.

use std::path::PathBuf;
use std::str::FromStr;

use tensornoodl::Tensor;
use tensornoodl::synthetic::{Plan, Planted, PlantedTensor, Values};
use tensornoodl_data::{Recipe, tns};

use crate::memory;

/// A tensor to look at.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A .tns file, also packed by gzip; - for standard input.
    #[arg(value_name = "DATA", required_unless_present = "synthetic")]
    data: Option<PathBuf>,
    /// A planted tensor instead of a file: nothing for the default one, or what differs from it, such as
    /// patterns=300,rows=300,cols=300,alpha=0.05,beta=0.05,noise=0.3,n=300,values=subgaussian:0.5,scale=1,seed=42.
    #[arg(long, value_name = "PLAN", num_args = 0..=1, default_missing_value = "", conflicts_with = "data")]
    synthetic: Option<PlanText>,
    /// Column of the file with the feature index.
    #[arg(long, default_value_t = 1, value_name = "COLUMN", conflicts_with = "synthetic")]
    feature: usize,
    /// Column of the file with the row index.
    #[arg(long, default_value_t = 2, value_name = "COLUMN", conflicts_with = "synthetic")]
    row: usize,
    /// Column of the file with the col index.
    #[arg(long, default_value_t = 3, value_name = "COLUMN", conflicts_with = "synthetic")]
    col: usize,
    /// First index of an axis, 0 or 1.
    #[arg(long, default_value_t = 1, conflicts_with = "synthetic")]
    index_base: usize,
    /// What to do with the values first: log2, scale, center, or several, as log2,scale,center.
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "synthetic")]
    recipe: Recipe,
}

/// The law of the values of B and C: rademacher, or subgaussian:C.
pub(crate) fn law(text: &str) -> Result<Values, String> {
    let floor = text.strip_prefix("subgaussian:").and_then(|floor| floor.parse().ok());
    match (text, floor) {
        ("rademacher", _) => Ok(Values::Rademacher),
        (_, Some(floor)) => Ok(Values::SubGaussian { floor }),
        _ => Err("it must be rademacher or subgaussian:C, such as subgaussian:0.5".into()),
    }
}

#[derive(Clone)]
struct PlanText(Plan);

impl FromStr for PlanText {
    type Err = String;

    fn from_str(text: &str) -> Result<PlanText, String> {
        fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{name} is {value:?}, it must be a number that it can have"))
        }
        let mut plan = Plan::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} must be a name, = and a value"))?;
            match name {
                "n" => plan.features = number(name, value)?,
                "patterns" => plan.patterns = number(name, value)?,
                "rows" => plan.rows = number(name, value)?,
                "cols" => plan.cols = number(name, value)?,
                "alpha" => plan.alpha = number(name, value)?,
                "beta" => plan.beta = number(name, value)?,
                "noise" => plan.noise = number(name, value)?,
                "scale" => plan.scale = number(name, value)?,
                "seed" => plan.seed = number(name, value)?,
                "values" => {
                    plan.row_values = law(value).map_err(|rule| format!("values is {value:?}, {rule}"))?;
                    plan.col_values = plan.row_values;
                }
                _ => {
                    let names = "n, patterns, rows, cols, alpha, beta, values, noise, scale, seed";
                    return Err(format!("{name:?} is none of {names}"));
                }
            }
        }
        Ok(PlanText(plan))
    }
}

/// What the search holds beside fibers: the covariance, its eigenvectors, and room to find them.
pub(crate) fn search_bytes(features: usize) -> f64 {
    5.0 * 8.0 * (features as f64).powi(2)
}

/// Patterns are what fibers share.
fn enough(tensor: &Tensor<'_>, name: &str) -> Result<(), tensornoodl_data::Error> {
    // Squares of smaller values are zero.
    let is_there = |fiber: &usize| tensor.fiber(*fiber).iter().any(|y| y * y > 0.0);
    let fibers = (0..tensor.fibers()).filter(is_there).take(2).count();
    if fibers < 2 { Err(tensornoodl_data::Error::Few { file: name.into(), fibers }) } else { Ok(()) }
}

/// A tensor, and where it is from.
pub(crate) struct Source {
    pub(crate) tensor: Tensor<'static>,
    /// In a few words.
    pub(crate) name: String,
    /// What was planted in it.
    pub(crate) truth: Option<Truth>,
}

/// What was planted.
pub(crate) struct Truth {
    pub(crate) planted: Planted,
    /// Fibers that show each pattern.
    pub(crate) shown: Vec<usize>,
}

impl Args {
    pub(crate) fn load(&self) -> anyhow::Result<Source> {
        if let Some(PlanText(plan)) = &self.synthetic {
            plan.check()?;
            memory::check(plan.bytes() + search_bytes(plan.features))?;
            let planted = Planted::new(plan.clone())?;
            let PlantedTensor { tensor, true_codes, .. } = planted.tensor(1);
            let shown = true_codes.matrix().transpose().columns().map(<[_]>::len).collect();
            let name = format!("planted, {} patterns, seed {}", plan.patterns, plan.seed);
            enough(&tensor, &name)?;
            return Ok(Source { tensor, name, truth: Some(Truth { planted, shown }) });
        }
        let layout =
            tns::Layout { feature: self.feature, row: self.row, col: self.col, base: self.index_base };
        layout.check()?;
        // clap asks for one of the two.
        let path = self.data.clone().unwrap_or_default();
        let name = if path.as_os_str() == "-" { "standard input".into() } else { path.display().to_string() };
        let entries = tns::read(tns::open(&path)?, &name, &layout)?;
        memory::check(3.0 * entries.bytes() + search_bytes(entries.shape().features))?;
        let tensor = self.recipe.apply(entries.tensor()?)?;
        enough(&tensor, &name)?;
        Ok(Source { tensor, name, truth: None })
    }
}
