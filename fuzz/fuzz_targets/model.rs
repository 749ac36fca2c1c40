//! Reads any bytes as a model file. A model that is read can be written, shown and used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tensornoodl::{Shape, Tensor};
use tensornoodl_data::Model;

fuzz_target!(|bytes: &[u8]| match Model::from_bytes(bytes, "fuzz.safetensors") {
    Ok(mut model) => {
        let again = model.to_bytes().expect("a model that was read can be written");
        let again = Model::from_bytes(&again, "again").expect("a model that was written can be read");
        assert_eq!(again.card, model.card);
        for pattern in 0..model.learner.dictionary().patterns() {
            model.leading(pattern, |factors| &factors.rows);
        }
        let shape = Shape { features: model.card.features.len(), rows: 2, cols: 2 };
        let entries: Vec<_> = (0..shape.features).map(|at| (at, at % 2, at % 2, 1.0 + at as f64)).collect();
        if let Ok(tensor) = Tensor::from_triplets(shape, &entries) {
            // An error is fine, and so are meaningless patterns.
            let _ = model.learner.encode(&tensor);
            let _ = model.learn(&tensor);
        }
    }
    Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
});
