#include "report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "report/markup.h"
#include "report/record.h"

namespace portwright {
namespace {

struct Sample {
  Json port;
  std::vector<Json> issues;
};

Sample sample() {
  const std::string folder = REPORT_RUN;
  Sample out{read_json(folder + "/port.json").value(), {}};
  std::ifstream lines(folder + "/issues.jsonl");
  for (std::string line; std::getline(lines, line);) out.issues.push_back(Json::parse(line));
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Record, WorstErrorIsOverAllSizesAndOutputs) {
  const auto [port, issues] = sample();
  const Record record = read_record(port, issues);
  ASSERT_EQ(record.targets.size(), 5U);
  EXPECT_EQ(record.targets[3].max_abs, 0.312);
  EXPECT_EQ(record.targets[4].max_abs, std::nullopt);
  EXPECT_EQ(record.passed(), 3U);
  EXPECT_EQ(record.headline(), "3 of 5 targets passed, 1 of them through a remedy; 4 issues in the log");
}

TEST(Record, HeadlineNamesStepsThatFailed) {
  Json port = sample().port;
  port["steps"][8]["status"] = "crashed";
  EXPECT_EQ(read_record(port, {}).headline(),
            "3 of 5 targets passed, 1 of them through a remedy; step bench: crashed; no issues met");
}

TEST(Record, HeadlineTellsRemediesOfTheModelFromThoseOfATarget) {
  Json port = sample().port;
  port["remedies"] = Json::array({{{"name", "other-exporter"}, {"reason", "r"}, {"proof", "p"}, {"step", "validate"}}});
  EXPECT_TRUE(has(read_record(port, {}).headline(), "1 of them through a remedy, the model itself through a remedy;"));
}

TEST(Record, DriftAndNoiseFloorAreSentences) {
  const auto [port, issues] = sample();
  const Record record = read_record(port, issues);
  EXPECT_EQ(record.targets[2].drift,
            "Honest loss of precision: its error (RMSE 1.2e-03) is 1.12 times what the same precision costs PyTorch "
            "itself (RMSE 1.1e-03).");
  EXPECT_TRUE(has(record.targets[0].noise_floor, "1.9e-06"));
  EXPECT_EQ(record.targets[2].accuracy, "Evaluation: accuracy 0.911 on the target, 0.912 on the reference (-0.00100).");
}

TEST(Record, RemediesOfTheRunAndOfTheTargetAreOne) {
  const auto [port, issues] = sample();
  const Record record = read_record(port, issues);
  ASSERT_EQ(record.remedies.size(), 1U);
  EXPECT_EQ(record.remedies[0].target, "onnxruntime:fp32");
}

TEST(Record, CommandIsQuotedForTheShell) {
  const Record record =
      read_record(Json{{"command", {"portwright", "port", "it's.py:f", "--input", "x:1:tokens(0,9)", ""}}}, {});
  EXPECT_EQ(record.command, "portwright port 'it'\\''s.py:f' --input 'x:1:tokens(0,9)' ''");
}

// Every record that a killed or a failed run may leave, and worse ones.
TEST(Record, AbsentAndWrongFieldsAreLeftOut) {
  for (
      const char* text :
      {"{}", "[]", "null", "3", R"({"targets": 3})", R"({"targets": [null, 3, {}]})",
       R"({"targets": [{"validate": {"sizes": [{}, null, {"axes": 3, "metrics": []}]}, "bench": [], "remedies": {}}]})",
       R"({"targets": [{"speedup_vs_eager": "nan", "accuracy": {"reference": 1}}], "steps": [1], "export": []})",
       R"({"remedies": ["name", 3, null], "environment": {"a": {"b": [1, {"c": null}]}}, "command": "text"})"}) {
    const Json port = Json::parse(text);
    const std::vector<Json> issues{port, Json::object(), Json(3)};
    EXPECT_TRUE(has(html(port, issues), "</html>")) << text;
    EXPECT_TRUE(has(markdown(port, issues), "# ")) << text;
    EXPECT_TRUE(has(junit(port, issues), "</testsuites>")) << text;
  }
}

TEST(Html, WorksOffline) {
  const auto [port, issues] = sample();
  const std::string page = html(port, issues);
  for (const char* link : {"src=\"http", "href=\"http", "@import", "url("}) EXPECT_FALSE(has(page, link)) << link;
  EXPECT_TRUE(has(page, "Chart.js v"));
}

TEST(Html, ShowsEveryTargetSizeAndIssue) {
  const auto [port, issues] = sample();
  const std::string page = html(port, issues);
  for (const auto& target : port["targets"])
    EXPECT_TRUE(has(page, "<h3>" + target["target"].get<std::string>() + "</h3>"));
  for (const char* size : {"batch 8", "batch 1", "batch 2", "batch 7", "batch 32"})
    EXPECT_EQ(count(page, std::string("<td>") + size + "</td>"), 4U) << size;
  for (const auto& issue : issues) EXPECT_TRUE(has(page, issue["id"].get<std::string>()));
  EXPECT_TRUE(has(page, "Honest loss of precision"));
  EXPECT_TRUE(has(page, "this build has no TensorRT"));
}

// Every string of a record may come from a stranger's model.
TEST(Html, EscapesEverything) {
  const std::string evil = "</script><script>alert('x')</script>\"&";
  auto [port, issues] = sample();
  port["source"] = evil;
  port["command"] = Json::array({evil});
  port["environment"] = Json{{evil, evil}};
  port["steps"][0]["log"] = evil;
  port["targets"][0]["target"] = evil;
  port["targets"][0]["validate"]["sizes"][0]["metrics"]["outputs"][0]["name"] = evil;
  port["targets"][0]["validate"]["sizes"][0]["axes"] = Json{{evil, 1}};
  issues[0]["symptom"] = evil;
  issues[0]["where"] = Json{{evil, evil}};
  const std::string page = html(port, issues);
  EXPECT_FALSE(has(page, "<script>alert"));
  EXPECT_FALSE(has(page, "</script><script>alert"));
  EXPECT_EQ(count(page, "<script"), count(page, "</script>"));
}

TEST(Markdown, TablesKeepTheirColumns) {
  auto [port, issues] = sample();
  issues[0]["symptom"] = "a | b\nc `d` <b>";
  const std::string text = markdown(port, issues);
  EXPECT_TRUE(has(text, "a \\| b c \\`d\\` &lt;b>"));
  EXPECT_TRUE(has(text, "# torchvision:resnet18: mismatch"));
}

TEST(JUnit, CountsWhatFailed) {
  const auto [port, issues] = sample();
  const std::string text = junit(port, issues);
  EXPECT_TRUE(has(text, R"(<testsuite name="openvino:fp32" tests="6" failures="0" errors="0" skipped="0")"));
  EXPECT_TRUE(has(text, R"(<testsuite name="torch:compile" tests="6" failures="2" errors="1" skipped="0")"));
  EXPECT_TRUE(has(text, R"(<failure type="mismatch" message="logits: tolerance, max abs 0.31">)"));
  EXPECT_TRUE(has(text, R"x(<error type="crashed" message="the engine&#39;s worker died of signal 11 (SIGSEGV)">)x"));
}

TEST(Markup, PlainTextIsEscapedOnce) {
  EXPECT_EQ(Markup("<a & 'b'>").str(), "&lt;a &amp; &#39;b&#39;&gt;");
  EXPECT_EQ(tag("p", {{"class", "a\"b"}, {"id", ""}}, "x < y").str(), "<p class=\"a&quot;b\">x &lt; y</p>");
  EXPECT_EQ(Markup(std::string("a\0b\x1b", 4)).str(), "ab");  // XML has no such characters
}

}  // namespace
}  // namespace portwright
