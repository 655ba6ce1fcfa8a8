#include "tests/cuda/model_graphs.h"

#include "devices/base/text.h"

namespace leat::testing {
namespace {

constexpr const char* kHead = "<ir_version: 10, opset_import: [\"\" : 23, \"leat\" : 1]>\n";

// Writes nodes whose names count up.
class GraphText {
 public:
  explicit GraphText(std::string head) : text_(std::move(head)) {}
  // "x7 = OP (ARGUMENTS)", with attributes in `op`; its name.
  std::string add(const std::string& op, const std::string& arguments) {
    std::string name = cat("x", ++count_);
    text_ += cat("  ", name, " = ", op, " (", arguments, ")\n");
    return name;
  }
  // A convolution without bias, normalized.
  std::string conv(const std::string& x, int64_t filters, int kernel, int stride,
                   int64_t groups = 1) {
    const std::string made =
        add(cat("leat.Conv2D <filters = ", filters, ", kernel = ", kernel, ", strides = ", stride,
                ", groups = ", groups, ", use_bias = 0, kernel_initializer = \"he_normal\">"),
            x);
    return add("leat.BatchNorm <momentum = 0.9, epsilon = 0.00001>", made);
  }
  std::string end(const std::string& output, const std::string& op, const std::string& argument) {
    return cat(text_, "  ", output, " = ", op, " (", argument, ")\n}\n");
  }

 private:
  std::string text_;
  int count_ = 0;
};

std::string head_of(const char* name, int64_t image, int64_t classes) {
  return cat(kHead, name, " (float[N,3,", image, ",", image, "] image) => (float[N,", classes,
             "] logits) {\n");
}

std::string classify(GraphText& graph, const std::string& x, int64_t classes) {
  const std::string mean = graph.add("GlobalAveragePool", x);
  return graph.end("logits", cat("leat.Dense <units = ", classes, ">"), graph.add("Flatten", mean));
}

}  // namespace

std::string resnet_graph(const ResNetSize& size) {
  GraphText graph(head_of("resnet", size.image, size.classes));
  std::string x = graph.add("Relu", graph.conv("image", size.width, 7, 2));
  x = graph.add("MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]>", x);
  int64_t width = size.width;
  for (size_t stage = 0; stage < size.blocks.size(); ++stage, width *= 2) {
    for (int block = 0; block < size.blocks[stage]; ++block) {
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      const std::string first = graph.add("Relu", graph.conv(x, width, 1, 1));
      const std::string second = graph.add("Relu", graph.conv(first, width, 3, stride));
      const std::string third = graph.conv(second, 4 * width, 1, 1);
      const std::string short_way = block == 0 ? graph.conv(x, 4 * width, 1, stride) : x;
      x = graph.add("Relu", graph.add("Add", cat(third, ", ", short_way)));
    }
  }
  return classify(graph, x, size.classes);
}

std::string mobilenet_graph() {
  constexpr int64_t kImage = 224, kClasses = 1000;
  struct Stage {
    int expansion;
    int64_t channels;
    int blocks, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  GraphText graph(head_of("mobilenet", kImage, kClasses));
  int64_t channels = 32;
  std::string x = graph.add("Relu", graph.conv("image", channels, 3, 2));
  for (const Stage& stage : kStages) {
    for (int block = 0; block < stage.blocks; ++block) {
      const int64_t wide = channels * stage.expansion;
      const int stride = block == 0 ? stage.stride : 1;
      std::string y = x;
      if (stage.expansion > 1) y = graph.add("Relu", graph.conv(y, wide, 1, 1));
      y = graph.add("Relu", graph.conv(y, wide, 3, stride, wide));
      y = graph.conv(y, stage.channels, 1, 1);
      const bool adds = stride == 1 && channels == stage.channels;
      x = adds ? graph.add("Add", cat(x, ", ", y)) : y;
      channels = stage.channels;
    }
  }
  return classify(graph, graph.add("Relu", graph.conv(x, 1280, 1, 1)), kClasses);
}

std::string gpt_graph(const GptSize& size) {
  GraphText graph(cat(
      kHead, "gpt (int64[N,", size.context, "] tokens) => (float[N,", size.context, ",",
      size.vocabulary, "] logits) {\n  first = Constant <value = int64 {0}> ()",
      "\n  end = Constant <value = int64 {", size.context,
      "}> ()\n  one = Constant <value = int64 {1}> ()\n", "  places = Range (first, end, one)\n"));
  const auto embedding = [&](int64_t rows, const char* ids) {
    return graph.add(cat("leat.Embedding <input_dim = ", rows, ", output_dim = ", size.width,
                         ", kernel_initializer = \"normal\">"),
                     ids);
  };
  const auto dense = [&](int64_t units, const std::string& x, const char* activation = "") {
    return graph.add(cat("leat.Dense <units = ", units, activation, ">"), x);
  };
  const auto norm = [&](const std::string& x) {
    return graph.add("leat.LayerNorm <epsilon = 0.00001>", x);
  };
  std::string x = graph.add(
      "Add", cat(embedding(size.vocabulary, "tokens"), ", ", embedding(size.context, "places")));
  for (int64_t block = 0; block < size.blocks; ++block) {
    const std::string n = norm(x);
    const std::string q = dense(size.width, n), k = dense(size.width, n), v = dense(size.width, n);
    const std::string attended =
        graph.add(cat("Attention <is_causal = 1, q_num_heads = ", size.heads,
                      ", kv_num_heads = ", size.heads, ">"),
                  cat(q, ", ", k, ", ", v));
    const std::string y = graph.add("Add", cat(x, ", ", dense(size.width, attended)));
    const std::string wide = dense(4 * size.width, norm(y), ", activation = \"gelu\"");
    x = graph.add("Add", cat(y, ", ", dense(size.width, wide)));
  }
  return graph.end("logits", cat("leat.Dense <units = ", size.vocabulary, ", use_bias = 0>"),
                   norm(x));
}

}  // namespace leat::testing
