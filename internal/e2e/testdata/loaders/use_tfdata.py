PACKAGES = ("tensorflow-cpu",)


def decode_image(view):
    """tf.data `list_files`, `decode_image`"""
    import tensorflow as tf

    def load(path):
        return path, tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)

    for path, picture in tf.data.Dataset.list_files(view + "/*/*").map(load):
        path = path.numpy().decode()
        yield path, path.split("/")[-2], picture


def exact_jpeg(view):
    """tf.data, `INTEGER_ACCURATE`"""
    import tensorflow as tf

    def load(path):
        data = tf.io.read_file(path)
        return path, tf.cond(
            tf.io.is_jpeg(data),
            lambda: tf.io.decode_jpeg(data, channels=3, dct_method="INTEGER_ACCURATE"),
            lambda: tf.io.decode_image(data, channels=3, expand_animations=False),
        )

    for path, picture in tf.data.Dataset.list_files(view + "/*/*").map(load):
        path = path.numpy().decode()
        yield path, path.split("/")[-2], picture


def load_npy(view):
    """tf.data, `np.load`"""
    import numpy as np
    import tensorflow as tf

    def load(path):
        return path, tf.numpy_function(np.load, [path], tf.uint8)

    for path, array in tf.data.Dataset.list_files(view + "/*/*.npy").map(load):
        path = path.numpy().decode()
        yield path, path.split("/")[-2], array
