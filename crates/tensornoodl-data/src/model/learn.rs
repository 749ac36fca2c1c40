//! Models and how they learn, step by step.

use tensornoodl::{Factors, Learner, Sparse, Step, Tensor};

use crate::count::events::Events;
use crate::count::query::Query;
use crate::count::recipe::Recipe;
use crate::error::Error;
use crate::model::card::{Card, Record};

/// Patterns and factors, with their labels and history.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Labels, settings and history.
    pub card: Card,
    /// The learner, which holds the patterns and continues with the next step.
    pub learner: Learner,
    /// The leading factors of every step so far.
    pub factors: Vec<Factors>,
    /// The factors of further groups that share a pattern in the last step, after the leading group.
    pub blocks: Vec<Factors>,
}

/// The largest number of groups of a pattern that are looked for, including the leading group.
pub(crate) const BLOCKS: usize = 3;

impl Model {
    /// Creates a model of a counted table, before the first step.
    pub fn new(
        learner: Learner,
        events: &Events,
        recipe: Recipe,
        table: &str,
        query: Query,
        command: &str,
        seed: u64,
    ) -> Model {
        let labels = [&events.features, &events.rows, &events.cols].map(|labels| labels.names.clone());
        let card = Card {
            table: table.into(),
            command: command.into(),
            recipe,
            steps: events.steps.as_ref().map_or(vec!["all".into()], |steps| steps.names.clone()),
            row_groups: events.row_groups.clone(),
            col_groups: events.col_groups.clone(),
            seed,
            tally: events.tally.clone(),
            ..Card::new(query, labels)
        };
        Model::with_card(learner, card)
    }

    /// Creates a model with the given card, before the first step.
    pub fn with_card(learner: Learner, card: Card) -> Model {
        Model { card, learner, factors: Vec::new(), blocks: Vec::new() }
    }

    /// Learns from the tensor of the next step.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the learner refuses the tensor or is stopped. The model is then unchanged.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        let step = self.learner.learn(tensor)?;
        if !step.lost.is_empty() {
            self.factors.iter_mut().for_each(|factors| *factors = without_patterns(factors, &step.lost));
        }
        self.blocks = step.codes.untangle_blocks(&**self.learner.team(), BLOCKS);
        self.factors.push(self.blocks.remove(0));
        self.card.history.push(Record {
            fibers: step.fibers,
            fit: step.fit,
            change: step.change,
            mean_code_size: step.mean_code_size,
            passes: step.passes,
            patterns: self.learner.dictionary().patterns(),
            found: step.found,
            lost: step.lost.len(),
        });
        Ok(step)
    }
}

/// Returns factors without those of the lost patterns.
fn without_patterns(factors: &Factors, lost: &[usize]) -> Factors {
    let keep = |sparse: &Sparse| {
        let mut kept = Sparse::new(sparse.rows());
        let columns = sparse.columns().enumerate().filter(|(pattern, _)| !lost.contains(pattern));
        columns.for_each(|(_, column)| kept.push(column));
        kept
    };
    let rank_one = factors.rank_one.iter().enumerate().filter(|(pattern, _)| !lost.contains(pattern));
    Factors {
        rows: keep(&factors.rows),
        cols: keep(&factors.cols),
        rank_one: rank_one.map(|(_, share)| *share).collect(),
    }
}
