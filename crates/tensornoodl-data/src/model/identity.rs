//! Identities of patterns. The number of a pattern in the dictionary changes when a pattern before it is lost; its
//! identity stays.

/// The identity of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// A number from 1. It stays with the pattern, and no other pattern of the model ever gets it.
    pub id: u64,
    /// The name that a user gave to the pattern, or empty.
    pub name: String,
}

/// A pattern that was lost, or that retired.
#[derive(Debug, Clone, PartialEq)]
pub struct Archived {
    /// The identity of the pattern.
    pub identity: Identity,
    /// Whether the pattern retired, because it was not seen for long. It returns when it is seen again.
    pub retired: bool,
    /// The pattern as it was before the step that lost it.
    pub pattern: Vec<f64>,
    /// The step that found the pattern, from 0.
    pub first: usize,
    /// The last step that showed the pattern, from 0.
    pub last: usize,
}

/// The largest identity: doubles, and so JSON and JavaScript, have all whole numbers up to it.
pub(crate) const MAX_ID: u64 = 1 << 53;

/// The identities of the patterns of a model, in the order of the dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identities {
    pub(crate) list: Vec<Identity>,
    /// The identity of the next pattern.
    pub(crate) next: u64,
}

impl Identities {
    /// Returns new identities for this number of patterns.
    pub(crate) fn new(patterns: usize) -> Identities {
        let mut identities = Identities { list: Vec::new(), next: 1 };
        identities.grow(patterns);
        identities
    }

    /// Follows a step after which there are `patterns` patterns: `found` patterns are new and the last ones, and the
    /// patterns `lost`, in order, are gone. Returns the identities of the lost patterns.
    ///
    /// A learner without patterns finds its first ones before the step. They are not counted as found.
    pub(crate) fn follow(&mut self, patterns: usize, found: usize, lost: &[usize]) -> Vec<Identity> {
        self.grow((patterns + lost.len()).saturating_sub(found));
        let mut removed: Vec<Identity> =
            lost.iter().rev().map(|pattern| self.list.remove(*pattern)).collect();
        removed.reverse();
        self.grow(patterns);
        removed
    }

    /// Adds new identities until there are `patterns`.
    fn grow(&mut self, patterns: usize) {
        while self.list.len() < patterns {
            self.list.push(Identity { id: self.next, name: String::new() });
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_stay_and_are_never_used_again() {
        let ids = |identities: &Identities| identities.list.iter().map(|it| it.id).collect::<Vec<_>>();
        // A learner without patterns has three after its first step, of which the step itself found one.
        let mut identities = Identities::new(0);
        assert!(identities.follow(3, 1, &[]).is_empty());
        assert_eq!(ids(&identities), [1, 2, 3]);
        identities.list[2].name = "third".into();
        let removed = identities.follow(3, 2, &[0, 1]);
        assert_eq!(removed.iter().map(|it| it.id).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((ids(&identities), identities.list[0].name.as_str()), (vec![3, 4, 5], "third"));
        identities.follow(0, 0, &[0, 1, 2]);
        identities.follow(1, 1, &[]);
        assert_eq!((ids(&identities), identities.next), (vec![6], 7));
        // First patterns of which one is lost in the same step.
        let mut identities = Identities::new(0);
        assert_eq!(identities.follow(2, 1, &[1])[0].id, 2);
        assert_eq!(ids(&identities), [1, 3]);
    }
}
