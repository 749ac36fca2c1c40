//! Planted tensors on the command line.

use std::str::FromStr;

use tensornoodl::discover::search_bytes;
use tensornoodl::synthetic::{Plan, Planted, PlantedTensor, Values};

use crate::assess::{Source, Truth};
use crate::memory;

/// Options that describe a planted tensor.
#[derive(clap::Args)]
pub struct PlantedArgs {
    /// Properties of the planted tensor that differ from the defaults, as name=value pairs with commas between them,
    /// such as
    /// features=300,patterns=300,rows=300,cols=300,alpha=0.05,beta=0.05,noise=0.3,values=subgaussian:0.5,scale=1,seed=42.
    #[arg(long, value_name = "PLAN", num_args = 0..=1, default_value = "", default_missing_value = "", hide_default_value = true)]
    synthetic: PlanText,
}

impl PlantedArgs {
    /// Plants the first tensor of the plan.
    ///
    /// # Errors
    /// If the plan is wrong, needs more memory than is free, or gives fewer than two fibers.
    pub fn load(&self) -> anyhow::Result<Source> {
        let PlanText(plan) = &self.synthetic;
        plan.check()?;
        memory::check(plan.bytes() + search_bytes(plan.features, plan.rows * plan.cols))?;
        let planted = Planted::new(plan.clone())?;
        let PlantedTensor { tensor, true_codes, .. } = planted.tensor(1);
        let shown = true_codes.matrix().transpose().columns().map(<[_]>::len).collect();
        let name = format!("planted, {} patterns, seed {}", plan.patterns, plan.seed);
        let source = Source { tensor, name, truth: Some(Truth { planted, shown }) };
        source.check()?;
        Ok(source)
    }
}

/// Parses the distribution of the values of B or C: `rademacher` or `subgaussian:C`.
///
/// # Errors
/// A sentence with the rule if the text is neither of them.
pub fn values(text: &str) -> Result<Values, String> {
    let floor = text.strip_prefix("subgaussian:").and_then(|floor| floor.parse().ok());
    match (text, floor) {
        ("rademacher", _) => Ok(Values::Rademacher),
        (_, Some(floor)) => Ok(Values::SubGaussian { floor }),
        _ => Err("it must be rademacher or subgaussian:C, such as subgaussian:0.5".into()),
    }
}

/// A plan, as `name=value` pairs with commas between them.
#[derive(Clone)]
struct PlanText(Plan);

impl FromStr for PlanText {
    type Err = String;

    fn from_str(text: &str) -> Result<PlanText, String> {
        fn number<T: FromStr>(name: &str, value: &str) -> Result<T, String> {
            value.parse().map_err(|_| format!("{name} is {value:?}, it must be a number in its range"))
        }
        let mut plan = Plan::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} must be a name, = and a value"))?;
            match name {
                "features" => plan.features = number(name, value)?,
                "patterns" => plan.patterns = number(name, value)?,
                "rows" => plan.rows = number(name, value)?,
                "cols" => plan.cols = number(name, value)?,
                "alpha" => plan.alpha = number(name, value)?,
                "beta" => plan.beta = number(name, value)?,
                "noise" => plan.noise = number(name, value)?,
                "scale" => plan.scale = number(name, value)?,
                "seed" => plan.seed = number(name, value)?,
                "values" => {
                    plan.row_values = values(value).map_err(|rule| format!("values is {value:?}, {rule}"))?;
                    plan.col_values = plan.row_values;
                }
                _ => {
                    let names = "features, patterns, rows, cols, alpha, beta, values, noise, scale, seed";
                    return Err(format!("{name:?} is none of {names}"));
                }
            }
        }
        Ok(PlanText(plan))
    }
}
