//! A model that learns.

use tensornoodl::{Factors, Learner, Sparse, Step, Tensor};

use crate::count::events::Events;
use crate::count::query::Query;
use crate::count::recipe::Recipe;
use crate::error::Error;
use crate::model::card::{Card, Record};

/// Patterns, factors, and where they come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// All that is not a number of the model.
    pub card: Card,
    /// Goes on learning.
    pub learner: Learner,
    /// Of every step so far.
    pub factors: Vec<Factors>,
    /// Of the last step, what comes after the leading factors: further groups that share a pattern.
    pub blocks: Vec<Factors>,
}

/// Groups of a pattern that are looked for, the leading one among them.
pub(crate) const BLOCKS: usize = 3;

impl Model {
    /// Before the first step.
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

    /// Before the first step, of whatever the card says.
    pub fn with_card(learner: Learner, card: Card) -> Model {
        Model { card, learner, factors: Vec::new(), blocks: Vec::new() }
    }

    /// Learns from the tensor of the next step.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        let step = self.learner.learn(tensor)?;
        // Patterns that are gone have no factors either.
        for factors in self.factors.iter_mut().filter(|_| !step.lost.is_empty()) {
            let keep = |sparse: &Sparse| {
                let mut kept = Sparse::new(sparse.rows());
                let columns =
                    sparse.columns().enumerate().filter(|(pattern, _)| !step.lost.contains(pattern));
                columns.for_each(|(_, column)| kept.push(column));
                kept
            };
            let rank_one = factors.rank_one.iter().enumerate();
            let rank_one =
                rank_one.filter(|(pattern, _)| !step.lost.contains(pattern)).map(|(_, share)| *share);
            *factors = Factors {
                rows: keep(&factors.rows),
                cols: keep(&factors.cols),
                rank_one: rank_one.collect(),
            };
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
