"""tf.data: the files, or TFRecord shards; TensorFlow's decoder, crop and resizer."""
import os
import random

import common

OWN = "TensorFlow's own crop and resizer; of JPEG it decodes only what it crops"
RESIZE = "TensorFlow, bilinear, no low-pass filter"
ROWS = [
    common.Row("tfdata-files", "tf.data, files", prepared=False, resize=RESIZE, note=OWN),
    common.Row("tfdata-records", "tf.data, TFRecord", resize=RESIZE, named=True,
               note=f"the files' bytes in shards, a buffer of 1,000 samples; {OWN}"),
]
IMPORTS = ["tensorflow"]


def prepare(src, dst, row, options):
    import tensorflow as tf
    found, _ = common.samples(src)
    random.Random(0).shuffle(found)
    shards = 4 * options.workers
    for shard in range(shards):
        with tf.io.TFRecordWriter(os.path.join(dst, f"{shard:05d}.tfrecord")) as to:
            for path, label in found[shard::shards]:
                with open(path, "rb") as f:
                    to.write(tf.train.Example(features=tf.train.Features(feature={
                        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[f.read()])),
                        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                    })).SerializeToString())


def loader(where, row, options, seed):
    import tensorflow as tf
    tf.random.set_seed(seed)

    def box(size):
        begin, extent, _ = tf.image.sample_distorted_bounding_box(
            size, tf.zeros([1, 0, 4]), area_range=(0.08, 1.0), aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10,
            use_image_if_no_bounding_boxes=True)
        return begin[0], begin[1], extent[0], extent[1]

    def jpeg(file):
        window = tf.stack(box(tf.io.extract_jpeg_shape(file)))
        return tf.io.decode_and_crop_jpeg(file, window, channels=3, dct_method="INTEGER_ACCURATE")

    def png(file):
        image = tf.io.decode_png(file, channels=3)
        return tf.image.crop_to_bounding_box(image, *box(tf.shape(image)))

    def augment(file, label):
        image = tf.cond(tf.io.is_jpeg(file), lambda: jpeg(file), lambda: png(file))
        image = tf.image.resize(image, [common.SIDE, common.SIDE])
        image = tf.image.random_flip_left_right(image)
        if options.kind == "uint8":
            return tf.cast(tf.round(image), tf.uint8), label
        return tf.transpose(image / 255.0, [2, 0, 1]), label

    if row.id == "tfdata-files":
        found, _ = common.samples(where)
        dataset = tf.data.Dataset.from_tensor_slices(([p for p, _ in found], [label for _, label in found]))
        dataset = dataset.shuffle(len(found), seed=seed)

        def parse(path, label):
            return tf.io.read_file(path), label
    else:
        shards = tf.data.Dataset.list_files(os.path.join(where, "*.tfrecord"), shuffle=True, seed=seed)
        dataset = shards.interleave(tf.data.TFRecordDataset, cycle_length=options.workers,
                                    num_parallel_calls=options.workers).shuffle(1000, seed=seed)

        def parse(record):
            fields = tf.io.parse_single_example(record, {
                "image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)})
            return fields["image"], fields["label"]

    dataset = dataset.map(lambda *sample: augment(*parse(*sample)), num_parallel_calls=options.workers)
    dataset = dataset.batch(options.batch).prefetch(2)
    threads = tf.data.Options()
    threads.threading.private_threadpool_size = options.workers
    threads.threading.max_intra_op_parallelism = 1
    return dataset.with_options(threads)


def versions():
    import tensorflow
    return {"tensorflow": tensorflow.__version__}
