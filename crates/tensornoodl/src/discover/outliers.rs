//! Outliers: a few fibers that are far larger than all others, such as the mails of a robot. They must not decide on the
//! units of the data, nor on its patterns.

use crate::data::tensor::Tensor;
use crate::discover::held_out::CLOSE;
use crate::linalg::vector::dot;

/// At most one of this many fibers is an outlier.
const MOST: usize = 32;

/// An outlier is this many times larger than the largest fiber that is none.
const FAR: f64 = 4.0;

/// The size above which a fiber is an outlier, given the sizes of all fibers. Infinite for few fibers.
pub(crate) fn far(mut sizes: Vec<f64>) -> f64 {
    let few = sizes.len().div_ceil(MOST);
    if sizes.len() < MOST / 2 {
        return f64::INFINITY;
    }
    FAR * *sizes.select_nth_unstable_by(few, |a, b| b.total_cmp(a)).1
}

/// The tensor without outliers. They are left in if they hold so little of the energy that they decide on nothing.
pub(crate) fn without_outliers<'t>(tensor: &'t Tensor<'_>) -> Tensor<'t> {
    let length = |fiber: usize| dot(tensor.fiber(fiber), tensor.fiber(fiber)).sqrt();
    let lengths: Vec<f64> = (0..tensor.fibers()).map(length).collect();
    let far = far(lengths.clone());
    let energy = |of: &dyn Fn(f64) -> bool| -> f64 {
        lengths.iter().filter(|length| of(**length)).map(|length| length * length).sum()
    };
    if energy(&|length| length > far) <= (1.0 - CLOSE) * energy(&|_| true) {
        return tensor.borrowed();
    }
    let kept: Vec<usize> = (0..lengths.len()).filter(|&fiber| lengths[fiber] <= far).collect();
    let values = kept.iter().flat_map(|&fiber| tensor.fiber(fiber)).copied().collect();
    let places = kept.iter().map(|&fiber| tensor.places()[fiber]).collect();
    Tensor::trusted(tensor.shape(), values, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Place, Shape};

    #[test]
    fn few_large_fibers_are_outliers_and_many_are_not() {
        let sizes = |large: usize| (0..100).map(|at| if at < large { 1000.0 } else { 1.0 }).collect();
        assert_eq!((far(sizes(0)), far(sizes(4)), far(sizes(5))), (4.0, 4.0, 4000.0));
        assert_eq!(far(vec![1.0, 1.0, 1000.0]), f64::INFINITY);
        let shape = Shape { features: 1, rows: 100, cols: 1 };
        let places: Vec<Place> = (0..100).map(|row| Place { row, col: 0 }).collect();
        let fibers = |values: Vec<f64>| {
            let tensor = Tensor::from_fibers(shape, values, places.clone()).unwrap();
            without_outliers(&tensor).fibers()
        };
        assert_eq!((fibers(sizes(1)), fibers(sizes(5))), (99, 100));
        // A fiber with a twentieth of the energy.
        assert_eq!(fibers((0..100).map(|at| if at == 7 { 2.3 } else { 1.0 }).collect()), 100);
    }
}
