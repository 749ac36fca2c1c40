//! Reads any bytes as a model file, as they are and with the checksum that they need. A model that is read can be
//! written, shown and used.
#![no_main]

use libfuzzer_sys::fuzz_target;
use safetensors::SafeTensors;
use tensornoodl::{Shape, Tensor};
use tensornoodl_data::Model;

/// Writes the checksum of the bytes into a model file, if the file has a place for it.
fn seal(bytes: &mut [u8]) {
    let Ok((header, metadata)) = SafeTensors::read_metadata(bytes) else { return };
    let Some(info) = metadata.info("checksum") else { return };
    let (start, end) = (8 + header + info.data_offsets.0, 8 + header + info.data_offsets.1);
    if end - start == 8 {
        bytes[start..end].fill(0);
        let checksum = u64::from(crc32fast::hash(bytes));
        bytes[start..end].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn use_model(model: Result<Model, tensornoodl_data::Error>) {
    match model {
        Ok(mut model) => {
            let again = model.to_bytes().expect("a model that was read can be written");
            let again = Model::from_bytes(&again, "again").expect("a model that was written can be read");
            assert_eq!(again.identities(), model.identities());
            assert_eq!(again.card.rows, model.card.rows);
            for pattern in 0..model.learner.dictionary().patterns() {
                model.leading(pattern, |factors| &factors.rows);
                model.first_step(pattern);
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
    }
}

fuzz_target!(|bytes: &[u8]| {
    use_model(Model::from_bytes(bytes, "fuzz.safetensors"));
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    use_model(Model::from_bytes(&sealed, "sealed.safetensors"));
});
