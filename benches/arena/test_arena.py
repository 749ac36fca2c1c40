"""Tests of the measures: python -m unittest discover benches/arena"""
import sys
import unittest
from pathlib import Path

import numpy as np
from scipy import optimize, sparse

sys.path.insert(0, str(Path(__file__).resolve().parent))
import generators
import measures


class Measures(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(0)
        self.patterns = rng.dirichlet(np.full(12, 0.3), 3)
        self.fibers = sparse.csr_matrix(rng.poisson(rng.gamma(1.0, 20.0, (5, 3)) @ self.patterns).astype(float))
        self.mean = measures.mean_fiber(self.fibers)
        self.patterns = measures.distributions(self.patterns, self.mean)
        self.hidden = next(measures.masks(self.fibers.shape, 0))

    def test_codes_have_the_largest_likelihood_of_the_cells_that_are_seen(self):
        codes = measures.encode(self.patterns, self.mean, self.fibers, self.hidden)
        for fiber, hidden, code in zip(self.fibers.toarray(), self.hidden.toarray(), codes):
            seen = hidden == 0

            def loss(x):
                rate = (np.abs(x) @ self.patterns + measures.FLOOR * self.mean)[seen]
                return (rate - fiber[seen] * np.log(rate)).sum()

            best = min(optimize.minimize(loss, start, method="Nelder-Mead").fun for start in (code + 1, code * 0 + 9))
            self.assertLess(loss(code), best + 0.02)

    def test_hidden_cells_do_not_matter_for_codes(self):
        other = sparse.csr_matrix(self.fibers + 1000 * self.hidden)
        one = measures.encode(self.patterns, self.mean, self.fibers, self.hidden)
        self.assertTrue(np.array_equal(one, measures.encode(self.patterns, self.mean, other, self.hidden)))
        self.assertFalse(np.allclose(one, measures.encode(self.patterns, self.mean, other)))

    def test_each_cell_is_hidden_once(self):
        self.assertTrue((sum(measures.masks((7, 30), 3)).toarray() == 1).all())

    def test_true_patterns_predict_better_than_wrong_ones_and_than_the_mean(self):
        wrong = self.patterns[:, ::-1]
        deviance, error = measures.shares(self.patterns, self.fibers, self.fibers, 0)
        self.assertLess(deviance, 0.9)
        self.assertLess(deviance, measures.shares(wrong, self.fibers, self.fibers, 0)[0])

    def test_matching_is_one_to_one(self):
        planted = np.eye(3)
        self.assertEqual(measures.matched(planted[[0, 0, 1]], planted).tolist(), [1, 1, 0])
        self.assertAlmostEqual(measures.agreement(planted[[0]], planted), (1 + 1 / 3) / 2)


class Generators(unittest.TestCase):
    def test_patterns_begin_and_end(self):
        plan = generators.Plan(late=1, early=1, noise=0.0)
        patterns, spans, cells = generators.stream(plan, 1)
        self.assertGreater(spans[0][0], 0)
        self.assertLess(spans[1][1], plan.steps)
        only = (patterns[0] > 0) & (np.delete(patterns, 0, 0).max(0) == 0)
        self.assertTrue(only.any())
        steps = cells[only[cells[:, 0]], 3]
        self.assertGreaterEqual(steps.min(), spans[0][0])

    def test_bursts_raise_the_variance_and_seeds_repeat(self):
        totals = {}
        for burst in (0.0, 4.0):
            plan = generators.Plan(burst=burst, noise=0.0, patterns=1)
            _, _, cells = generators.stream(plan, 0)
            self.assertTrue(np.array_equal(cells, generators.stream(plan, 0)[2]))
            steps = np.bincount(cells[:, 3], cells[:, 4], plan.steps)
            totals[burst] = steps.var() / steps.mean()
        self.assertLess(totals[0.0], 2)
        self.assertGreater(totals[4.0], 4)

    def test_the_fifth_team_of_the_desk_begins_late_and_seeds_repeat(self):
        mixes, cells = generators.desk(0)
        self.assertEqual(cells, generators.desk(0)[1])
        self.assertTrue(np.allclose(mixes.sum(1), 1))
        of_fifth = lambda weeks: sum(many for category, _, _, week, many in cells if category == 11 and week in weeks)
        self.assertGreater(of_fifth(range(22, 44)), 3 * of_fifth(range(22)))


if __name__ == "__main__":
    unittest.main()
